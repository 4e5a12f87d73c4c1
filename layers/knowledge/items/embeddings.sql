-- current --
-- The model by whose vectors items are searched.
SELECT backend, model, version, dimensions FROM knowledge_layer.item_models WHERE state = 'current'

-- unindexed --
-- Items in sight that have no vectors of the current model for what they say now, with that model.
SELECT item.id, item.version AS item_version, title, summary, body, backend, model.model, model.version, dimensions
FROM knowledge_layer.items_to_embed AS due
JOIN knowledge_layer.items AS item ON item.id = due.item_id AND item.compartment = ANY (%(scope)s)
JOIN knowledge_layer.item_models AS model ON model.state = 'current'
ORDER BY item.id
LIMIT %(limit)s

-- hold --
-- Those of these items that still say what was embedded; they are not changed until this has ended.
SELECT id FROM knowledge_layer.items
JOIN unnest(%(ids)s::text[], %(item_versions)s::integer[]) AS embedded (item_id, item_version)
    ON embedded.item_id = id AND embedded.item_version = version
ORDER BY id
FOR SHARE

-- forget --
-- The vectors of a model that these items had.
DELETE FROM knowledge_layer.item_embeddings
WHERE item_id = ANY (%(ids)s) AND model = %(model)s AND version = %(version)s

-- remember --
-- Vectors of items' passages.
INSERT INTO knowledge_layer.item_embeddings (item_id, chunk, model, version, item_version, embedding)
SELECT item_id, chunk, %(model)s, %(version)s, item_version, embedding
FROM unnest(%(ids)s::text[], %(chunks)s::integer[], %(item_versions)s::integer[], %(embeddings)s::vector[])
    AS made (item_id, chunk, item_version, embedding)

-- done --
-- These items are embedded, if it is still this model that they are searched by.
DELETE FROM knowledge_layer.items_to_embed AS due
USING unnest(%(ids)s::text[], %(item_versions)s::integer[]) AS embedded (item_id, item_version)
WHERE due.item_id = embedded.item_id AND due.item_version = embedded.item_version
  AND EXISTS (SELECT FROM knowledge_layer.item_models
              WHERE state = 'current' AND model = %(model)s AND version = %(version)s)
