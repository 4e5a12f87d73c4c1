-- note --
-- Keep a slow query, and no more than the last ones.
SELECT knowledge_note_slow_query(%(details)s::jsonb, %(keep)s)

-- latest --
-- The slow queries that are kept, newest first.
SELECT asked_at, details FROM knowledge_slow_queries ORDER BY id DESC LIMIT %(keep)s
