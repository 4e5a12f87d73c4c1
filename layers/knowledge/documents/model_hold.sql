-- hold_for_reading --
-- The model whose vectors the documents have, and what state they are in: of which database, since it last started, so
-- that stores which share a cache, or one restored from a backup, never meet each other's answers. Naming the documents' table locks it before the
-- rest is looked at, which keeps a switch of the model out until this transaction ends.
SELECT model, version, dimensions, now() AS now,
       concat_ws(' ', current_database(), pg_postmaster_start_time(),
                 (SELECT string_agg(slot || ':' || changes, ' ' ORDER BY slot)
                  FROM knowledge_changes WHERE knowledge_changes.collection = 'documents')) AS state
FROM knowledge_embedding_models LEFT JOIN (SELECT FROM knowledge_documents LIMIT 0) AS held ON true
WHERE knowledge_embedding_models.collection = 'documents'

-- embedding_model --
-- The model whose vectors the documents have.
SELECT model, version, dimensions FROM knowledge_embedding_models WHERE collection = 'documents'

-- hold_for_writing --
-- Keeps a switch of the embedding model out until this transaction ends.
LOCK TABLE knowledge_documents IN ROW EXCLUSIVE MODE
