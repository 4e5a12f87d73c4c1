-- change --
-- The change of model that is under way.
SELECT model, version, dimensions, started_at FROM knowledge_reembeddings WHERE collection = 'documents'

-- hold_change --
-- The change of model that is under way, which nobody ends before this transaction does.
SELECT FROM knowledge_reembeddings WHERE collection = 'documents' FOR SHARE

-- stored_model --
-- The model whose vectors queries are answered from.
SELECT model, version, dimensions FROM knowledge_embedding_models WHERE collection = 'documents'

-- has_column --
-- Whether the documents have a column.
SELECT EXISTS (SELECT FROM pg_attribute
               WHERE attrelid = 'knowledge_documents'::regclass AND attname = %(name)s AND NOT attisdropped) AS there

-- has_constraint --
-- Whether the check that a switch leaves for later is still to be made.
SELECT EXISTS (SELECT FROM pg_constraint
               WHERE conrelid = 'knowledge_documents'::regclass AND conname = 'knowledge_documents_embedded') AS there

-- is_bulk_loading --
-- Whether a bulk load has the indexes put away.
SELECT EXISTS (SELECT FROM knowledge_put_away_indexes) AS there

-- is_valid --
-- Whether an index is there, whole.
SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid) AS there

-- begin --
-- A column for the next vectors, empty; what it costs is a moment's exclusive lock.
ALTER TABLE knowledge_documents ADD COLUMN embedding_next vector({dimensions});
ALTER TABLE knowledge_documents ALTER COLUMN embedding_next SET STORAGE MAIN;
CREATE TRIGGER forget_next_embedding BEFORE UPDATE ON knowledge_documents
    FOR EACH ROW WHEN (OLD.content_hash <> NEW.content_hash) EXECUTE FUNCTION knowledge_forget_next_embedding();
INSERT INTO knowledge_reembeddings (collection, model, version, dimensions)
VALUES ('documents', {model}, {version}, {dimensions})

-- abort --
-- As it was before.
DROP TRIGGER IF EXISTS forget_next_embedding ON knowledge_documents;
ALTER TABLE knowledge_documents DROP COLUMN IF EXISTS embedding_next;
DELETE FROM knowledge_reembeddings WHERE collection = 'documents'

-- index_pending --
-- Finds what is left to do without reading the rest.
CREATE INDEX CONCURRENTLY knowledge_documents_to_reembed ON knowledge_documents (id) WHERE embedding_next IS NULL

-- index_next --
-- The next vectors' index, as the migration makes that of today's.
CREATE INDEX CONCURRENTLY knowledge_documents_embedding_next ON knowledge_documents
USING hnsw (embedding_next vector_cosine_ops) WITH (m = 16, ef_construction = 64)

-- drop_index --
-- An index that an interrupted build left unfinished.
DROP INDEX CONCURRENTLY IF EXISTS {name}

-- count --
-- How much there is to do, and how much of it is done.
SELECT count(*) AS documents, count(embedding_next) AS done FROM knowledge_documents

-- pending --
-- Some documents that have no vector of the next model yet.
SELECT id, content, metadata, content_hash FROM knowledge_documents
WHERE embedding_next IS NULL AND id > %(after)s
ORDER BY id
LIMIT %(limit)s

-- fill --
-- Give documents their next vectors, where their text is still the one that was embedded.
WITH held AS (
    SELECT stored.id, offered.embedding
    FROM unnest(%(ids)s::text[], %(content_hashes)s::bytea[], %(embeddings)s::vector[])
             AS offered (id, content_hash, embedding)
    JOIN knowledge_documents AS stored USING (id, content_hash)
    WHERE embedding_next IS NULL
    ORDER BY stored.id
    FOR UPDATE OF stored
)
UPDATE knowledge_documents AS stored SET embedding_next = held.embedding FROM held WHERE stored.id = held.id

-- hold_writers --
-- Nobody writes until this transaction ends; queries go on.
LOCK TABLE knowledge_documents IN SHARE MODE

-- hold_everybody --
-- For the moment of the switch.
LOCK TABLE knowledge_documents IN ACCESS EXCLUSIVE MODE

-- tag_indexes --
-- The indexes of tags, which are over today's vectors.
SELECT relname AS name FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = 'knowledge_documents'::regclass AND starts_with(relname, %(prefix)s)

-- drop_held --
-- An index, under the exclusive lock that is held anyway.
DROP INDEX {name}

-- switch --
-- The next vectors become today's. That none is missing was seen under lock; the check of it over all rows comes after,
-- when nobody has to wait for it.
DROP TRIGGER forget_next_embedding ON knowledge_documents;
DROP INDEX IF EXISTS knowledge_documents_to_reembed;
ALTER TABLE knowledge_documents ALTER COLUMN embedding DROP NOT NULL;
ALTER TABLE knowledge_documents RENAME COLUMN embedding TO embedding_old;
ALTER TABLE knowledge_documents RENAME COLUMN embedding_next TO embedding;
ALTER INDEX knowledge_documents_embedding RENAME TO knowledge_documents_embedding_old;
ALTER INDEX knowledge_documents_embedding_next RENAME TO knowledge_documents_embedding;
ALTER TABLE knowledge_documents ADD CONSTRAINT knowledge_documents_embedded CHECK (embedding IS NOT NULL) NOT VALID;
UPDATE knowledge_embedding_models AS now
SET model = next.model, version = next.version, dimensions = next.dimensions
FROM knowledge_reembeddings AS next
WHERE now.collection = 'documents' AND next.collection = 'documents';
DELETE FROM knowledge_reembeddings WHERE collection = 'documents'

-- validate --
-- Reads all rows beside everybody.
ALTER TABLE knowledge_documents VALIDATE CONSTRAINT knowledge_documents_embedded

-- require --
-- Needs to read nothing, since the constraint says it.
ALTER TABLE knowledge_documents ALTER COLUMN embedding SET NOT NULL;
ALTER TABLE knowledge_documents DROP CONSTRAINT knowledge_documents_embedded

-- analyze --
-- Plans follow the statistics.
ANALYZE knowledge_documents

-- drop_old --
-- The old vectors, with their index.
ALTER TABLE knowledge_documents DROP COLUMN embedding_old
