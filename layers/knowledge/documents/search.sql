-- estimate_matches --
-- The planner's estimate of the live rows that a tag filter admits.
EXPLAIN (FORMAT JSON)
SELECT FROM knowledge_documents WHERE {tags} AND (expires_at IS NULL OR expires_at > now())

-- indexes --
-- The usable vector indexes: that over all rows, and of those of tags the ones with these names.
SELECT class.relname AS name, greatest(class.reltuples, 0)::bigint AS rows,
       (SELECT option_value::integer FROM pg_options_to_table(class.reloptions) WHERE option_name = 'lists') AS lists,
       greatest(documents.reltuples, 0)::bigint AS documents
FROM pg_index
JOIN pg_class AS class ON class.oid = indexrelid
JOIN pg_class AS documents ON documents.oid = indrelid
WHERE indrelid = 'knowledge_documents'::regclass AND indisvalid AND class.relname = ANY (%(names)s)

-- scan --
-- The nearest of the live rows that a tag filter admits, by reading them all: "+ 0" keeps the index out.
SELECT id, content, tags, metadata, source, updated_at, expires_at, 1 - (embedding <=> %(vector)s) AS similarity
FROM knowledge_documents
WHERE {tags} AND (expires_at IS NULL OR expires_at > now())
ORDER BY least(embedding <=> %(vector)s, 1) + 0, id
LIMIT %(limit)s

-- search_index --
-- Of the live rows nearest of all, by the HNSW index, those that a tag filter admits.
WITH near AS MATERIALIZED (
    SELECT id, content, tags, metadata, source, updated_at, expires_at, embedding <=> %(vector)s AS distance
    FROM knowledge_documents
    WHERE expires_at IS NULL OR expires_at > now()
    ORDER BY embedding <=> %(vector)s
    LIMIT %(reach)s
)
SELECT id, content, tags, metadata, source, updated_at, expires_at, 1 - distance AS similarity
FROM near
WHERE {tags}
ORDER BY least(distance, 1) + 0, id
LIMIT %(limit)s

-- search_tag_index --
-- The same within the rows of one tag. The planner takes the tag's index for a literal only; it orders by vectors
-- rounded to half precision, so that no other index answers, and the rows found are sorted by the vectors as they are.
WITH near AS MATERIALIZED (
    SELECT id, content, tags, metadata, source, updated_at, expires_at, embedding <=> %(vector)s AS distance
    FROM knowledge_documents
    WHERE tags @> {tag}::text[] AND (expires_at IS NULL OR expires_at > now())
    ORDER BY embedding::halfvec({dimensions}) <=> %(vector)s::halfvec({dimensions})
    LIMIT %(reach)s
)
SELECT id, content, tags, metadata, source, updated_at, expires_at, 1 - distance AS similarity
FROM near
WHERE {tags}
ORDER BY least(distance, 1) + 0, id
LIMIT %(limit)s

-- similarities --
-- How alike in meaning live documents are that were found otherwise.
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
FROM knowledge_documents
WHERE id = ANY (%(ids)s::text[]) AND (expires_at IS NULL OR expires_at > now())

-- likeness --
-- How alike live documents are to each other: for each, in the order asked for, its similarity to all of them.
WITH asked AS MATERIALIZED (
    SELECT id, place, embedding
    FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS wanted (id, place)
    JOIN knowledge_documents AS stored USING (id)
    WHERE expires_at IS NULL OR expires_at > now()
)
SELECT one.id, ARRAY(SELECT 1 - (one.embedding <=> other.embedding) FROM asked AS other ORDER BY place) AS likeness
FROM asked AS one
ORDER BY one.place

-- documents --
-- Live documents by id.
SELECT id, content, tags, metadata, source, updated_at, expires_at
FROM knowledge_documents
WHERE id = ANY (%(ids)s::text[]) AND (expires_at IS NULL OR expires_at > now())
