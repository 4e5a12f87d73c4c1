-- events --
-- What happened, oldest first.
SELECT seq, recorded_at, event, item_id, actor, actor_class, db_user, detail
FROM knowledge_layer.provenance_events
WHERE seq > %(after)s AND (%(item_id)s::text IS NULL OR item_id = %(item_id)s)
ORDER BY seq

-- chain --
-- The log as it is hashed.
SELECT seq, recorded_at, event, item_id, actor, actor_class, db_user, detail::text AS detail, nonce, digest, hash
FROM knowledge_layer.provenance_events
ORDER BY seq

-- removed --
-- What deletions left of the events that went with their items.
SELECT (left_over ->> 0)::bigint AS seq, left_over ->> 1 AS item_id, left_over ->> 2 AS digest, seq AS told_at
FROM knowledge_layer.provenance_events, jsonb_array_elements(detail -> 'removed') AS left_over
WHERE event = 'deleted'

-- unguarded --
-- What should keep the log and does not: a trigger, an owner, a right too many.
SELECT format('the trigger %s of the log is not in force', wanted) AS what
FROM unnest(ARRAY['seal', 'refuse_row_change', 'refuse_change']) AS wanted
WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'knowledge_layer.provenance_events'::regclass
                  AND tgname = wanted AND tgenabled = 'A')
UNION ALL
SELECT format('the trigger %s of %s is not in force', tgname, tgrelid::regclass)
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE relnamespace = 'knowledge_layer'::regnamespace AND NOT tgisinternal AND tgenabled <> 'A'
  AND tgrelid <> 'knowledge_layer.provenance_events'::regclass
UNION ALL
SELECT format('the table %s does not belong to knowledge_layer_owner', oid::regclass)
FROM pg_class
WHERE relnamespace = 'knowledge_layer'::regnamespace AND relkind IN ('r', 'p')
  AND relowner <> 'knowledge_layer_owner'::regrole
UNION ALL
SELECT format('the role %s can log in', rolname)
FROM pg_roles WHERE rolname IN ('knowledge_layer_owner', 'knowledge_layer_eraser') AND rolcanlogin
UNION ALL
SELECT format('%s may %s the log', role, verb)
FROM unnest(ARRAY['knowledge_layer_app', 'knowledge_layer_steward']) AS role,
     unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']) AS verb
WHERE has_table_privilege(role, 'knowledge_layer.provenance_events', verb)
   OR CASE WHEN verb IN ('UPDATE', 'REFERENCES')
           THEN has_any_column_privilege(role, 'knowledge_layer.provenance_events', verb) END
ORDER BY 1

-- vanished_items --
-- Items that were created and are not there.
SELECT DISTINCT item_id AS what FROM knowledge_layer.provenance_events AS said
WHERE event = 'created' AND NOT EXISTS (SELECT FROM knowledge_layer.items WHERE id = said.item_id)
ORDER BY 1

-- unrecorded_items --
-- Items that nobody created.
SELECT id AS what FROM knowledge_layer.items AS item
WHERE NOT EXISTS (SELECT FROM knowledge_layer.provenance_events WHERE item_id = item.id AND event = 'created')
ORDER BY 1

-- changed_contents --
-- Versions, of today and before, whose content is not that which was stored.
SELECT coalesce(said.item_id, held.item_id) || ' version ' || version AS what
FROM (SELECT item_id, (detail ->> 'version')::integer AS version, detail ->> 'salt' AS salt,
             detail ->> 'content' AS content
      FROM knowledge_layer.provenance_events WHERE event IN ('created', 'updated')) AS said
FULL JOIN (SELECT id AS item_id, version, type, title, summary, body, body_ref, compartment, tags, domain_at
           FROM knowledge_layer.items
           UNION ALL
           SELECT item_id, version, type, title, summary, body, body_ref, compartment, tags, domain_at
           FROM knowledge_layer.item_versions) AS held USING (item_id, version)
WHERE content IS DISTINCT FROM encode(sha256(convert_to(jsonb_build_array(
    salt, type, title, summary, body, body_ref, compartment, tags, extract(epoch FROM domain_at))::text, 'UTF8')), 'hex')
ORDER BY 1

-- changed_states --
-- Items whose tier or gate state is not that of the last event that moved them.
SELECT id AS what FROM knowledge_layer.items
JOIN LATERAL (SELECT detail FROM knowledge_layer.provenance_events
              WHERE item_id = id AND detail ? 'tier' ORDER BY seq DESC LIMIT 1) AS last ON true
WHERE (tier, gate_state) IS DISTINCT FROM (detail ->> 'tier', detail ->> 'gate_state')
ORDER BY 1

-- changed_links --
-- Links between items that are there, without their event, and events without their link.
SELECT format('from %s to %s (%s)', from_id, to_id, relation) AS what
FROM (SELECT from_id, to_id, relation FROM knowledge_layer.item_links WHERE from_id <> to_id) AS held
FULL JOIN (SELECT DISTINCT item_id AS from_id, detail ->> 'to' AS to_id, detail ->> 'relation' AS relation
           FROM knowledge_layer.provenance_events AS said
           WHERE event = 'linked'
             AND NOT EXISTS (SELECT FROM knowledge_layer.item_tombstones WHERE item_id = said.detail ->> 'to')) AS said
    USING (from_id, to_id, relation)
WHERE held IS NULL OR said IS NULL
ORDER BY 1

-- changed_deletions --
-- Tombstones without the event of the deletion, and events without the tombstone.
SELECT coalesce(said.item_id, held.item_id) AS what
FROM (SELECT DISTINCT jsonb_array_elements_text(detail -> 'items') AS item_id
      FROM knowledge_layer.provenance_events WHERE event = 'deleted') AS said
FULL JOIN knowledge_layer.item_tombstones AS held ON held.item_id = said.item_id
WHERE said.item_id IS NULL OR held.item_id IS NULL
ORDER BY 1

-- outlived_deletions --
-- Items that were deleted and of which there is something.
SELECT item_id AS what FROM knowledge_layer.item_tombstones
WHERE item_id IN (SELECT id FROM knowledge_layer.items UNION ALL
                  SELECT item_id FROM knowledge_layer.item_versions UNION ALL
                  SELECT item_id FROM knowledge_layer.item_embeddings UNION ALL
                  SELECT item_id FROM knowledge_layer.access_events UNION ALL
                  SELECT item_id FROM knowledge_layer.provenance_events)
ORDER BY 1

-- foreign_removals --
-- Deletions that account for events of other items than those deleted.
SELECT DISTINCT seq AS what
FROM knowledge_layer.provenance_events AS said, jsonb_array_elements(detail -> 'removed') AS left_over
WHERE event = 'deleted' AND NOT coalesce(said.detail -> 'items' ? (left_over ->> 1), false)
ORDER BY 1

-- changed_grants --
-- Grants in force that are not those which were given and not taken back.
SELECT format('of %s to %s', compartment, agent) AS what
FROM (SELECT agent, compartment, may_write FROM knowledge_layer.agent_grants WHERE revoked_at IS NULL) AS held
FULL JOIN (SELECT agent, compartment, may_write
           FROM (SELECT DISTINCT ON (detail ->> 'agent', detail ->> 'compartment')
                        event, detail ->> 'agent' AS agent, detail ->> 'compartment' AS compartment,
                        (detail ->> 'may_write')::boolean AS may_write
                 FROM knowledge_layer.provenance_events WHERE event IN ('granted', 'revoked')
                 ORDER BY detail ->> 'agent', detail ->> 'compartment', seq DESC) AS last
           WHERE event = 'granted') AS said USING (agent, compartment, may_write)
WHERE held IS NULL OR said IS NULL
ORDER BY 1
