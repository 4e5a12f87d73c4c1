-- hold_models --
-- The models on record, nobody else changing them until this has ended.
SELECT state, backend, model, version, dimensions FROM knowledge_layer.item_models ORDER BY state FOR UPDATE

-- models --
-- The models on record.
SELECT state, backend, model, version, dimensions FROM knowledge_layer.item_models ORDER BY state

-- begin --
-- Another model is to be the next.
INSERT INTO knowledge_layer.item_models (state, backend, model, version, dimensions)
VALUES ('next', %(backend)s, %(model)s, %(version)s, %(dimensions)s)

-- make_index --
-- The index of its vectors.
SELECT knowledge_layer.index_vectors_of(%(model)s, %(version)s, %(dimensions)s)

-- count --
-- How many items there are, and how many have a model's vectors for what they say now.
SELECT count(*) AS items, count(*) FILTER (WHERE EXISTS (
    SELECT FROM knowledge_layer.item_embeddings AS made
    WHERE made.item_id = item.id AND made.item_version = item.version
      AND made.model = %(model)s AND made.version = %(version)s)) AS done
FROM knowledge_layer.items AS item

-- pending --
-- Items after an id without a model's vectors for what they say now.
SELECT item.id, item.version AS item_version, title, summary, body FROM knowledge_layer.items AS item
WHERE item.id > %(after)s AND NOT EXISTS (
    SELECT FROM knowledge_layer.item_embeddings AS made
    WHERE made.item_id = item.id AND made.item_version = item.version
      AND made.model = %(model)s AND made.version = %(version)s)
ORDER BY item.id
LIMIT %(limit)s

-- retire --
-- Today's model is the one before.
DELETE FROM knowledge_layer.item_models WHERE state = 'current'

-- switch --
-- The next model is today's.
UPDATE knowledge_layer.item_models SET state = 'current', since = clock_timestamp() WHERE state = 'next'

-- settle --
-- What has the new model's vectors is not to be embedded again.
DELETE FROM knowledge_layer.items_to_embed AS due
USING knowledge_layer.item_embeddings AS made
WHERE made.item_id = due.item_id AND made.item_version = due.item_version
  AND made.model = %(model)s AND made.version = %(version)s

-- note --
-- For the log: by what items are searched from now on.
INSERT INTO knowledge_layer.provenance_events (event, detail)
VALUES ('noted', jsonb_build_object('embedding_model', jsonb_build_object('before', %(before)s::text, 'after', %(after)s::text)))

-- give_up --
-- There is no next model.
DELETE FROM knowledge_layer.item_models WHERE state = 'next'

-- drop_old --
-- Vectors of models that are not on record.
DELETE FROM knowledge_layer.item_embeddings AS made
WHERE NOT EXISTS (SELECT FROM knowledge_layer.item_models AS kept
                  WHERE kept.model = made.model AND kept.version = made.version)
