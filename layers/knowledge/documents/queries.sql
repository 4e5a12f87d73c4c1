-- compare --
-- Of the documents offered, those already stored: what is the same, and the vector where only the content is.
SELECT stored.id,
       stored.row_hash = offered.row_hash AS same_row,
       CASE WHEN stored.content_hash = offered.content_hash AND stored.row_hash <> offered.row_hash
            THEN stored.embedding END AS embedding
FROM unnest(%(ids)s::text[], %(content_hashes)s::bytea[], %(row_hashes)s::bytea[])
         AS offered (id, content_hash, row_hash)
JOIN knowledge_documents AS stored USING (id)

-- upsert --
-- One statement in id order, so that concurrent writers lock in one order; rows that would not change are not touched.
INSERT INTO knowledge_documents AS stored
       (id, content, tags, metadata, source, updated_at, expires_at, content_hash, row_hash, embedding)
SELECT id, content, tags, metadata, source, coalesce(updated_at, now()), expires_at,
       decode(content_hash, 'hex'), decode(row_hash, 'hex'), embedding
FROM ROWS FROM (
         jsonb_to_recordset(%(documents)s::jsonb) AS (
             id text, content text, tags text[], metadata jsonb, source text, updated_at timestamptz,
             expires_at timestamptz, content_hash text, row_hash text),
         unnest(%(embeddings)s::vector[])
     ) AS offered (id, content, tags, metadata, source, updated_at, expires_at, content_hash, row_hash, embedding)
ORDER BY id COLLATE "C"
ON CONFLICT (id) DO UPDATE
SET content = excluded.content, tags = excluded.tags, metadata = excluded.metadata, source = excluded.source,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, content_hash = excluded.content_hash,
    row_hash = excluded.row_hash, embedding = excluded.embedding, stored_at = now()
WHERE stored.row_hash <> excluded.row_hash
  AND (stored.source = excluded.source OR NOT %(respects_sources)s)
RETURNING id, xmax = 0 AS created

-- foreign --
-- Which of the documents offered are stored under another source; asked after the upsert, when nobody can interfere.
SELECT stored.id, stored.source
FROM unnest(%(ids)s::text[], %(sources)s::text[]) AS offered (id, source)
JOIN knowledge_documents AS stored USING (id)
WHERE stored.source <> offered.source
ORDER BY id

-- delete --
-- Remove documents by id, locked in id order like every writer; a bound writer leaves other sources' alone.
WITH doomed AS (
    SELECT id FROM knowledge_documents
    WHERE id = ANY (%(ids)s::text[]) AND (%(source)s::text IS NULL OR source = %(source)s)
    ORDER BY id FOR UPDATE
)
DELETE FROM knowledge_documents USING doomed WHERE knowledge_documents.id = doomed.id

-- expire --
-- End documents now, locked in id order. What they were offered as no longer holds, so that their provider's next sync,
-- if it still has them, brings them back.
WITH stale AS (
    SELECT id FROM knowledge_documents
    WHERE id = ANY (%(ids)s::text[]) AND (%(source)s::text IS NULL OR source = %(source)s)
      AND (expires_at IS NULL OR expires_at > now())
    ORDER BY id FOR UPDATE
)
UPDATE knowledge_documents SET expires_at = now(), row_hash = '' FROM stale WHERE knowledge_documents.id = stale.id

-- foreign_ids --
-- Which of these ids are another source's.
SELECT id, source FROM knowledge_documents
WHERE id = ANY (%(ids)s::text[]) AND source <> %(source)s
ORDER BY id

-- delete_other_children --
-- Remove the children of one parent that are not among those just written.
WITH doomed AS (
    SELECT id FROM knowledge_documents
    WHERE parent_id = %(parent_id)s AND source = %(source)s AND NOT id = ANY (%(ids)s::text[])
    ORDER BY id FOR UPDATE
)
DELETE FROM knowledge_documents USING doomed WHERE knowledge_documents.id = doomed.id

-- hold_parent --
-- One replacement at a time of one source's children of one parent.
SELECT pg_advisory_xact_lock(hashtextextended(%(source)s || chr(10) || %(parent_id)s, 0))

-- lock_same --
-- Which of these documents are stored just as offered; they stay so until the transaction ends.
SELECT stored.id
FROM unnest(%(ids)s::text[], %(row_hashes)s::bytea[]) AS offered (id, row_hash)
JOIN knowledge_documents AS stored USING (id, row_hash)
ORDER BY stored.id
FOR SHARE OF stored

-- touch --
-- Of documents offered again as they are stored: those whose source has a run that is open or holds removals back count
-- as written now, so that the run does not remove them. Where there is no such run, nothing is written.
WITH removing AS (
    SELECT DISTINCT source FROM unnest(%(sources)s::text[]) AS source
    JOIN knowledge_sync_runs AS run ON run.name = 'source:' || source
    WHERE run.status = 'running' OR (run.status = 'partial' AND run.held > 0)
), kept AS (
    SELECT stored.id
    FROM unnest(%(ids)s::text[], %(row_hashes)s::bytea[]) AS offered (id, row_hash)
    JOIN knowledge_documents AS stored USING (id, row_hash)
    JOIN removing USING (source)
    ORDER BY stored.id
    FOR UPDATE OF stored
)
UPDATE knowledge_documents AS stored SET stored_at = clock_timestamp() FROM kept WHERE stored.id = kept.id

-- count_same --
-- How many of these documents are stored just as offered.
SELECT count(*) AS same
FROM unnest(%(ids)s::text[], %(row_hashes)s::bytea[]) AS offered (id, row_hash)
JOIN knowledge_documents AS stored USING (id, row_hash)

-- count_unseen --
-- Of one source's documents: all, and those that a run has not seen and nobody wrote since it began.
SELECT count(*) AS total,
       count(*) FILTER (WHERE stored_at < %(since)s AND seen.document_id IS NULL) AS unseen,
       count(seen.document_id) AS seen
FROM knowledge_documents AS stored
LEFT JOIN knowledge_sync_seen AS seen ON seen.run_id = %(run_id)s AND seen.document_id = stored.id
WHERE source = %(source)s

-- delete_unseen --
-- Remove what a run has not seen, unless it was written since: the lock looks at the newest row, so a refresh wins.
WITH doomed AS (
    SELECT id FROM knowledge_documents AS stored
    WHERE source = %(source)s AND stored_at < %(since)s
      AND NOT EXISTS (SELECT FROM knowledge_sync_seen
                      WHERE run_id = %(run_id)s AND document_id = stored.id)
    ORDER BY id FOR UPDATE
)
DELETE FROM knowledge_documents USING doomed WHERE knowledge_documents.id = doomed.id

-- count --
-- Totals: live, and expired but not removed yet.
SELECT count(*) FILTER (WHERE expires_at IS NULL OR expires_at > now()) AS documents,
       count(*) FILTER (WHERE expires_at <= now()) AS expired,
       min(updated_at) FILTER (WHERE expires_at IS NULL OR expires_at > now()) AS oldest,
       max(updated_at) FILTER (WHERE expires_at IS NULL OR expires_at > now()) AS newest
FROM knowledge_documents

-- count_by_tag --
-- Live documents of each of the tags asked for.
SELECT tag, count(stored.id) AS documents
FROM unnest(%(tags)s::text[]) WITH ORDINALITY AS wanted (tag, place)
LEFT JOIN knowledge_documents AS stored
       ON stored.tags @> ARRAY[tag] AND (expires_at IS NULL OR expires_at > now())
GROUP BY tag, place
ORDER BY place

-- count_by_source --
-- Live documents of each source, with the span of their moments.
SELECT source, count(*) AS documents, min(updated_at) AS oldest, max(updated_at) AS newest
FROM knowledge_documents
WHERE expires_at IS NULL OR expires_at > now()
GROUP BY source
ORDER BY source

-- delete_expired --
-- Remove some expired documents: none that a writer holds, and none that was refreshed while this waited.
WITH doomed AS (
    SELECT id FROM knowledge_documents
    WHERE expires_at < now()
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM knowledge_documents AS stored USING doomed
WHERE stored.id = doomed.id AND stored.expires_at < now()

-- count_export --
-- How many live documents an export with this filter holds.
SELECT count(*) AS documents
FROM knowledge_documents
WHERE {tags} AND (%(source)s::text IS NULL OR source = %(source)s) AND (expires_at IS NULL OR expires_at > now())

-- export --
-- Live documents in id order, with what is needed to store them elsewhere as they are.
SELECT id, content, tags, metadata, source, updated_at, expires_at, content_hash, row_hash,
       CASE WHEN %(with_vectors)s THEN embedding END AS embedding
FROM knowledge_documents
WHERE {tags} AND (%(source)s::text IS NULL OR source = %(source)s) AND (expires_at IS NULL OR expires_at > now())
ORDER BY id
