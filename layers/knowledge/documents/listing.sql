-- page --
-- Live documents after an id, in id order, with the beginning of what they say.
SELECT id, coalesce(metadata ->> 'name', metadata ->> 'title') AS title, source, tags, updated_at, expires_at,
       length(content) AS characters, left(content, %(excerpt)s) AS excerpt
FROM knowledge_documents
WHERE id > %(after)s
  AND starts_with(id, %(prefix)s)
  AND (%(source)s::text IS NULL OR source = %(source)s)
  AND {tags}
  AND (expires_at IS NULL OR expires_at > now())
ORDER BY id
LIMIT %(limit)s

-- one --
-- A live document as it is stored.
SELECT id, content, tags, metadata, source, updated_at, expires_at
FROM knowledge_documents
WHERE id = %(id)s AND (expires_at IS NULL OR expires_at > now())
