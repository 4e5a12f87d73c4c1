-- embedding_model --
-- The model whose vectors the documents have.
SELECT model, version, dimensions FROM knowledge_embedding_models WHERE collection = 'documents'

-- hold_for_reading --
-- Keeps a switch of the embedding model out until this transaction ends.
LOCK TABLE knowledge_documents IN ACCESS SHARE MODE

-- hold_for_writing --
-- Keeps a switch of the embedding model out until this transaction ends.
LOCK TABLE knowledge_documents IN ROW EXCLUSIVE MODE
