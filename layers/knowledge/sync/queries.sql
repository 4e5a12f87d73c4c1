-- claim_lease --
-- Take a lease that is free, run out, or given back, for a slot later than the last; by the database's clock alone.
WITH previous AS (SELECT expires_at FROM knowledge_leases WHERE name = %(name)s)
INSERT INTO knowledge_leases AS lease (name, fence, slot, expires_at)
VALUES (%(name)s, 1, %(slot)s, clock_timestamp() + %(ttl)s)
ON CONFLICT (name) DO UPDATE
SET fence = lease.fence + 1, slot = coalesce(excluded.slot, lease.slot), expires_at = excluded.expires_at
WHERE lease.expires_at <= clock_timestamp()
  AND (excluded.slot IS NULL OR lease.slot IS NULL OR excluded.slot > lease.slot)
RETURNING fence, coalesce((SELECT expires_at > '-infinity' FROM previous), false) AS taken_over

-- lease_state --
-- Why a lease could not be claimed.
SELECT expires_at > clock_timestamp() AS held, slot FROM knowledge_leases WHERE name = %(name)s

-- renew_lease --
-- Prolong a lease, and hold its row so that nobody claims it before this transaction ends.
UPDATE knowledge_leases SET expires_at = clock_timestamp() + %(ttl)s
WHERE name = %(name)s AND fence = %(fence)s AND expires_at > '-infinity'

-- hold_lease --
-- Keep anybody from claiming a lease before this transaction ends, and see its fence.
SELECT fence FROM knowledge_leases WHERE name = %(name)s FOR UPDATE

-- advance_lease --
-- Go on under a new fence, so that whoever else carries the old one is refused.
UPDATE knowledge_leases SET fence = fence + 1, expires_at = clock_timestamp() + %(ttl)s
WHERE name = %(name)s AND fence = %(fence)s AND expires_at > '-infinity'
RETURNING fence

-- set_fence --
-- The run goes on under the lease's new fence.
UPDATE knowledge_sync_runs SET fence = %(fence)s WHERE id = %(run_id)s AND status = 'running'

-- release_lease --
-- Give a lease back.
UPDATE knowledge_leases SET expires_at = '-infinity' WHERE name = %(name)s AND fence = %(fence)s

-- start_run --
-- Record that a run has begun.
INSERT INTO knowledge_sync_runs (name, trigger, slot, fence) VALUES (%(name)s, %(trigger)s, %(slot)s, %(fence)s)
RETURNING id

-- record_skip --
-- Record that a run did not begin because another one has not ended.
INSERT INTO knowledge_sync_runs (name, trigger, slot, fence, status, finished_at, error)
VALUES (%(name)s, %(trigger)s, %(slot)s, 0, 'skipped', clock_timestamp(), %(error)s)
RETURNING id

-- fail_abandoned --
-- Runs whose holder vanished without a word are failed runs.
UPDATE knowledge_sync_runs
SET status = 'failed', finished_at = clock_timestamp(), error = 'stopped without finishing; its lease ran out'
WHERE name = %(name)s AND status = 'running' AND fence < %(fence)s

-- forget_old_runs --
-- Records of this name that nobody asks about any more; the last ones stay however old they are.
DELETE FROM knowledge_sync_runs
WHERE name = %(name)s AND status <> 'running' AND started_at < clock_timestamp() - %(keep_for)s
  AND id NOT IN (SELECT id FROM knowledge_sync_runs WHERE name = %(name)s ORDER BY id DESC LIMIT %(keep)s)

-- add_counts --
-- Add to a live run what one batch did.
UPDATE knowledge_sync_runs
SET created = created + %(created)s, updated = updated + %(updated)s, unchanged = unchanged + %(unchanged)s
WHERE id = %(run_id)s AND status = 'running'

-- finish_run --
-- Record how a run ended.
UPDATE knowledge_sync_runs
SET status = %(status)s, finished_at = clock_timestamp(), error = %(error)s, removed = removed + %(removed)s,
    held = %(held)s, created = created + %(created)s, updated = updated + %(updated)s,
    unchanged = unchanged + %(unchanged)s
WHERE id = %(run_id)s AND status = ANY (%(from)s)
RETURNING id, name, trigger, slot, status, started_at, finished_at, created, updated, unchanged, removed, held, error

-- run --
-- One run.
SELECT id, name, trigger, slot, fence, status, started_at, finished_at, created, updated, unchanged, removed, held, error
FROM knowledge_sync_runs WHERE id = %(run_id)s

-- runs --
-- The last runs, newest first, of one name or of all.
SELECT id, name, trigger, slot, status, started_at, finished_at, created, updated, unchanged, removed, held, error
FROM knowledge_sync_runs
WHERE %(name)s::text IS NULL OR name = %(name)s
ORDER BY id DESC
LIMIT %(limit)s

-- mark_seen --
-- These documents are still in the source.
INSERT INTO knowledge_sync_seen (run_id, document_id)
SELECT %(run_id)s, unnest(%(ids)s::text[])
ON CONFLICT DO NOTHING

-- forget_seen --
-- What earlier runs of this name have seen is of no use any more.
DELETE FROM knowledge_sync_seen
USING knowledge_sync_runs AS run
WHERE run.id = knowledge_sync_seen.run_id AND run.name = %(name)s AND run.id <> %(keep)s
