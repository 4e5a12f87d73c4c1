-- create --
-- A new item.
INSERT INTO knowledge_layer.items (id, type, title, summary, body, body_ref, compartment, tags, domain_at, tier)
VALUES (%(id)s, %(type)s, %(title)s, %(summary)s, %(body)s::jsonb, %(body_ref)s, %(compartment)s, %(tags)s, %(domain_at)s,
        coalesce(%(tier)s, 'working'))

-- hold --
-- An item that is to be changed, if the session sees it.
SELECT version, tier, gate_state FROM knowledge_layer.items
WHERE id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
FOR NO KEY UPDATE

-- supersede --
-- The next version of an item; the database keeps the one before. Back at work, it has the gate before it again.
UPDATE knowledge_layer.items
SET type = %(type)s, title = %(title)s, summary = %(summary)s, body = %(body)s::jsonb, body_ref = %(body_ref)s,
    compartment = %(compartment)s, tags = %(tags)s, domain_at = %(domain_at)s, tier = coalesce(%(tier)s, tier),
    gate_state = CASE WHEN %(tier)s = 'working' THEN 'none' ELSE gate_state END,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = %(id)s

-- has_compartment --
-- Whether there is this compartment.
SELECT EXISTS (SELECT FROM knowledge_layer.compartments WHERE id = %(compartment)s) AS found

-- visible --
-- Which of these items the session sees.
SELECT id FROM knowledge_layer.items
WHERE id = ANY (%(ids)s) AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))

-- link --
-- Links of one item, those that are there already left as they are.
INSERT INTO knowledge_layer.item_links (from_id, to_id, relation)
SELECT %(id)s, link.to_id, link.relation
FROM unnest(%(to_ids)s::text[], %(relations)s::text[]) AS link (to_id, relation)
ON CONFLICT DO NOTHING

-- get --
-- An item in full, and the access: recorded, and on its clock. Nothing where the session does not see it.
WITH item AS (
    UPDATE knowledge_layer.items SET last_accessed_at = clock_timestamp()
    WHERE id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
    RETURNING {columns}
), accessed AS (
    INSERT INTO knowledge_layer.access_events (item_id) SELECT id FROM item
)
SELECT item.*, {links} AS links FROM item

-- look --
-- Items in full, no access.
SELECT {columns}, {links} AS links FROM knowledge_layer.items AS item
WHERE id = ANY (%(ids)s) AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
ORDER BY id

-- promote --
-- North to working, as if just accessed.
UPDATE knowledge_layer.items
SET tier = 'working', gate_state = 'none', promoted_at = clock_timestamp(), last_accessed_at = clock_timestamp()
WHERE id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))

-- working --
-- The working set, and which of it was accessed or written within seven days.
SELECT {columns}, {links} AS links, effective_access_at >= now() - interval '7 days' AS freshness_ring
FROM knowledge_layer.items AS item
WHERE tier = 'working' AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
ORDER BY effective_access_at DESC, id

-- versions --
-- What an item was, oldest first, where the session sees both the item and what it was then.
SELECT version, type, title, summary, body, body_ref, compartment, tags, domain_at, tier, written_at, superseded_at
FROM knowledge_layer.item_versions
WHERE item_id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
  AND EXISTS (SELECT FROM knowledge_layer.items
              WHERE id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s)))
ORDER BY version
