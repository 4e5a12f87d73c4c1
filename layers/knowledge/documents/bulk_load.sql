-- state --
-- Since when the indexes are put away, and whether the one over all rows is there, whole.
SELECT (SELECT min(put_away_at) FROM knowledge_put_away_indexes) AS put_away_at,
       EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid) AS index_is_valid

-- change_of_model --
-- A change of the embedding model that is under way.
SELECT FROM knowledge_reembeddings

-- remember --
-- Keep the definitions of the indexes of vectors and words that are there, whole; what was kept before stays.
INSERT INTO knowledge_put_away_indexes (name, definition)
SELECT class.relname, pg_get_indexdef(indexrelid)
FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid
WHERE indrelid IN ('knowledge_documents'::regclass, 'knowledge_document_words'::regclass) AND indisvalid
  AND (class.relname IN (%(name)s, %(words)s) OR starts_with(class.relname, %(prefix)s))
ON CONFLICT (name) DO NOTHING

-- drop --
-- Without the index an insert costs a fraction.
DROP INDEX IF EXISTS {name}

-- remembered --
-- The statements that bring the indexes back, that over all rows first.
SELECT name, definition FROM knowledge_put_away_indexes ORDER BY name <> %(name)s, name

-- is_valid --
-- Whether an index is there, whole.
SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid) AS is_valid

-- forget --
-- The index is back.
DELETE FROM knowledge_put_away_indexes WHERE name = %(name)s

-- analyze --
-- The planner chooses between scan and index by what it knows of the table.
ANALYZE knowledge_documents, knowledge_document_words
