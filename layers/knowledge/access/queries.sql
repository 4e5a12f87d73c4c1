-- find --
-- The role and source of a key that has not expired.
SELECT role, source FROM knowledge_api_keys
WHERE digest = %(digest)s AND (expires_at IS NULL OR expires_at > now())

-- hold_name --
-- One issue at a time for a name.
SELECT pg_advisory_xact_lock(hashtextextended('knowledge_api_keys:' || %(name)s, 0))

-- retire --
-- Let the earlier keys of this name run out: they stay valid for the time that a rotation takes.
UPDATE knowledge_api_keys SET expires_at = least(coalesce(expires_at, 'infinity'), now() + %(grace)s)
WHERE name = %(name)s

-- prune --
-- Of the earlier keys of this name only the newest stays: current and previous, no more.
DELETE FROM knowledge_api_keys
WHERE name = %(name)s AND digest NOT IN (
    SELECT digest FROM knowledge_api_keys WHERE name = %(name)s ORDER BY created_at DESC, digest LIMIT 1)

-- issue --
-- Store a new key's digest.
INSERT INTO knowledge_api_keys (digest, name, role, source) VALUES (%(digest)s, %(name)s, %(role)s, %(source)s)

-- revoke --
-- Forget every key of this name.
DELETE FROM knowledge_api_keys WHERE name = %(name)s

-- list --
-- The keys, without their digests.
SELECT name, role, source, created_at, expires_at FROM knowledge_api_keys ORDER BY name, created_at DESC
