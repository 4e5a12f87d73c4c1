-- server --
-- What the database is made of, and what its clock says.
SELECT current_setting('server_version_num')::integer AS version, clock_timestamp() AS now

-- extensions --
-- Each extension that we need: the version in use, and the one that this server has.
SELECT wanted.name, installed.extversion AS installed, available.default_version AS available
FROM unnest(%(names)s::text[]) AS wanted (name)
LEFT JOIN pg_extension AS installed ON installed.extname = wanted.name
LEFT JOIN pg_available_extensions AS available ON available.name = wanted.name
ORDER BY wanted.name

-- invalid_indexes --
-- Indexes that an interrupted build left behind; those that somebody builds just now apart.
SELECT class.relname AS name
FROM pg_index
JOIN pg_class AS class ON class.oid = pg_index.indexrelid
WHERE NOT pg_index.indisvalid AND class.relname LIKE 'knowledge%%'
  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS built WHERE built.index_relid = pg_index.indexrelid)
ORDER BY class.relname

-- migrations --
-- The numbers of the migrations that were applied; none where there is no history.
SELECT number FROM knowledge_migrations

-- has_history --
-- Whether anything was ever migrated here.
SELECT to_regclass('knowledge_migrations') IS NOT NULL AS there
