-- Changes of the embedding model while everything goes on (docs/adr/0010-reembedding.md).

-- The change under way: the model whose vectors are being filled into knowledge_documents.embedding_next.
CREATE TABLE knowledge_reembeddings (
    collection text PRIMARY KEY,
    model      text NOT NULL,
    version    text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions > 0),
    started_at timestamptz NOT NULL DEFAULT now()
);

-- Once a document's text is another, the next model's vector of the old one is of no use. The trigger that calls this
-- is there only while a change is under way.
CREATE FUNCTION knowledge_forget_next_embedding() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.embedding_next := NULL;
    RETURN NEW;
END
$$;
