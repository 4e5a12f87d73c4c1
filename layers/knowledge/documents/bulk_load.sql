-- state --
-- Since when the index is put away, and whether it is there, whole.
SELECT (SELECT put_away_at FROM knowledge_put_away_indexes WHERE name = %(name)s) AS put_away_at,
       EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid) AS index_is_valid

-- remember --
-- Keep the definition of the index if it is there, whole; one that was kept before stays.
INSERT INTO knowledge_put_away_indexes (name, definition)
SELECT %(name)s, pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid
ON CONFLICT (name) DO NOTHING

-- drop --
-- Without the index an insert costs a fraction.
DROP INDEX IF EXISTS knowledge_documents_embedding

-- remembered --
-- The statement that brings the index back.
SELECT definition FROM knowledge_put_away_indexes WHERE name = %(name)s

-- forget --
-- The index is back.
DELETE FROM knowledge_put_away_indexes WHERE name = %(name)s

-- analyze --
-- The planner chooses between scan and index by what it knows of the table.
ANALYZE knowledge_documents
