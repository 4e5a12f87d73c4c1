-- Documents with their vectors, and the one model those vectors are of.

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE knowledge_embedding_models (
    collection text PRIMARY KEY,
    model      text NOT NULL,
    version    text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions > 0)
);

INSERT INTO knowledge_embedding_models (collection, model, version, dimensions)
VALUES ('documents', current_setting('knowledge.model'), current_setting('knowledge.version'),
        current_setting('knowledge.dimensions')::integer);

-- "C" collation: ids and tags compare by code point, as they do in Python, so that sorted writers agree on the order.
CREATE TABLE knowledge_documents (
    id           text COLLATE "C" PRIMARY KEY,
    content      text NOT NULL,
    tags         text[] NOT NULL DEFAULT '{}',
    metadata     jsonb NOT NULL DEFAULT '{}',
    source       text NOT NULL DEFAULT '',
    parent_id    text COLLATE "C" GENERATED ALWAYS AS (metadata ->> 'parent_id') STORED,
    content_hash bytea NOT NULL,  -- SHA-256 of the text that was embedded: equal means the vector still holds
    row_hash     bytea NOT NULL,  -- SHA-256 of all that the provider sent: equal means there is nothing to write
    updated_at   timestamptz NOT NULL DEFAULT now(),  -- the provider's moment where it gave one
    expires_at   timestamptz,
    stored_at    timestamptz NOT NULL DEFAULT now()   -- when this row was last written
) WITH (fillfactor = 70);  -- room in each page for bookkeeping updates that touch no index

-- The dimension is the model's, so this one column cannot be static text.
DO $$
BEGIN
    EXECUTE format('ALTER TABLE knowledge_documents ADD COLUMN embedding vector(%s) NOT NULL',
                   current_setting('knowledge.dimensions')::integer);
END
$$;

-- In the row and not in TOAST: an exact scan reads every matching vector, and is five times faster so.
ALTER TABLE knowledge_documents ALTER COLUMN embedding SET STORAGE MAIN;

CREATE INDEX knowledge_documents_embedding ON knowledge_documents
    USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64);
CREATE INDEX knowledge_documents_tags ON knowledge_documents USING gin (tags);
CREATE INDEX knowledge_documents_expires_at ON knowledge_documents (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX knowledge_documents_source ON knowledge_documents (source, id);
CREATE INDEX knowledge_documents_parent_id ON knowledge_documents (parent_id) WHERE parent_id IS NOT NULL;
