-- estimate_matches --
-- The planner's estimate of the live rows that a tag filter admits.
EXPLAIN (FORMAT JSON)
SELECT FROM knowledge_documents WHERE {tags} AND (expires_at IS NULL OR expires_at > now())

-- scan --
-- The nearest of the live rows that a tag filter admits, by reading them all: "+ 0" keeps the index out.
SELECT id, content, tags, metadata, source, updated_at, expires_at, 1 - (embedding <=> %(vector)s) AS similarity
FROM knowledge_documents
WHERE {tags} AND (expires_at IS NULL OR expires_at > now())
ORDER BY least(embedding <=> %(vector)s, 1) + 0, id
LIMIT %(limit)s

-- search_index --
-- Near live rows that a tag filter admits, from the HNSW index, sorted again because a relaxed scan is not in order.
WITH near AS MATERIALIZED (
    SELECT id, content, tags, metadata, source, updated_at, expires_at, embedding <=> %(vector)s AS distance
    FROM knowledge_documents
    WHERE {tags} AND (expires_at IS NULL OR expires_at > now())
    ORDER BY embedding <=> %(vector)s
    LIMIT %(limit)s
)
SELECT id, content, tags, metadata, source, updated_at, expires_at, 1 - distance AS similarity
FROM near
ORDER BY least(distance, 1) + 0, id
