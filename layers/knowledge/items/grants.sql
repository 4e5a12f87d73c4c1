-- grant --
-- Give an agent a compartment; the database dates it.
INSERT INTO knowledge_layer.agent_grants (agent, compartment, may_write)
VALUES (%(agent)s, %(compartment)s, %(may_write)s)
RETURNING agent, compartment, may_write, granted_at, granted_by, revoked_at, revoked_by

-- revoke --
-- Take it back; the database dates that, whatever is set here.
UPDATE knowledge_layer.agent_grants SET revoked_at = now()
WHERE agent = %(agent)s AND compartment = %(compartment)s AND revoked_at IS NULL
RETURNING agent, compartment, may_write, granted_at, granted_by, revoked_at, revoked_by

-- list --
-- Grants by agent and compartment, oldest first.
SELECT agent, compartment, may_write, granted_at, granted_by, revoked_at, revoked_by
FROM knowledge_layer.agent_grants
WHERE (%(agent)s::text IS NULL OR agent = %(agent)s) AND (NOT %(in_force)s OR revoked_at IS NULL)
  AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
ORDER BY agent, compartment, granted_at
