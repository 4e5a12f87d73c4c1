-- long_expired --
-- Documents that clean-up should have removed a day ago.
SELECT count(*) AS documents FROM knowledge_documents WHERE expires_at < now() - interval '1 day'
