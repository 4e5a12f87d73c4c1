-- sources --
-- Live documents of each source, and the seconds since it was last heard of: by its newest document, or by a sync.
SELECT documents.source, documents.total AS documents,
       greatest(0, extract(epoch FROM now() - greatest(documents.newest, syncs.last)))::float AS age_s
FROM (
    SELECT source, count(*) AS total, max(updated_at) AS newest
    FROM knowledge_documents
    WHERE expires_at IS NULL OR expires_at > now()
    GROUP BY source
) AS documents
LEFT JOIN (
    SELECT name, max(finished_at) AS last FROM knowledge_sync_runs WHERE status IN ('succeeded', 'partial') GROUP BY name
) AS syncs ON syncs.name = 'source:' || documents.source
ORDER BY documents.total DESC, documents.source

-- connections --
-- Whoever is connected to this database.
SELECT count(*) AS connections FROM pg_stat_activity WHERE datname = current_database()
