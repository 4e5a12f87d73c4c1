-- erase --
-- Delete an item and what was made from it alone.
SELECT knowledge_layer.erase_item(%(id)s, %(scope)s::text[]) AS erased

-- flags --
-- Items made from a deleted source and from others too.
SELECT item_id, source_id, flagged_at, kept_at, kept_by
FROM knowledge_layer.derivative_flags JOIN knowledge_layer.items ON id = item_id
WHERE (NOT %(undecided)s OR kept_at IS NULL) AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
ORDER BY flagged_at, item_id, source_id

-- keep --
-- Decide that a flagged item stays.
UPDATE knowledge_layer.derivative_flags SET kept_at = clock_timestamp(), kept_by = %(who)s
WHERE item_id = %(id)s AND kept_at IS NULL
  AND EXISTS (SELECT FROM knowledge_layer.items
              WHERE id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s)))

-- tombstones --
-- What was deleted.
SELECT item_id, type, deleted_at, deleted_by FROM knowledge_layer.item_tombstones ORDER BY deleted_at, item_id

-- may_scrub --
-- Whether stewards may rewrite the tables.
SELECT CASE WHEN current_setting('server_version_num')::integer >= 170000
            THEN has_table_privilege('knowledge_layer_steward', 'knowledge_layer.items', 'MAINTAIN')
            ELSE false END AS may

-- scrub --
-- Rewrite every table that holds content, or tells of items, and its indexes.
VACUUM (FULL, ANALYZE) knowledge_layer.items, knowledge_layer.item_versions, knowledge_layer.item_links,
    knowledge_layer.item_embeddings, knowledge_layer.access_events, knowledge_layer.derivative_flags,
    knowledge_layer.provenance_events
