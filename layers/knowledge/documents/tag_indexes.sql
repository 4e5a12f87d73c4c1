-- frequent_tags --
-- Tags that many documents have, most frequent first.
SELECT tag, count(*) AS documents
FROM knowledge_documents, unnest(tags) AS tag
GROUP BY tag
HAVING count(*) >= %(at_least)s
ORDER BY count(*) DESC, tag COLLATE "C"

-- tag_indexes --
-- The vector indexes of tags that there are, those under construction included.
SELECT class.relname AS name, indisvalid AS is_valid, pg_get_expr(indpred, indrelid) AS condition,
       coalesce((SELECT option_value::integer FROM pg_options_to_table(class.reloptions)
                 WHERE option_name = 'lists'), 0) AS lists,
       EXISTS (SELECT FROM pg_stat_progress_create_index WHERE index_relid = indexrelid) AS is_being_built
FROM pg_index
JOIN pg_class AS class ON class.oid = indexrelid
WHERE indrelid = 'knowledge_documents'::regclass AND starts_with(class.relname, %(prefix)s)
ORDER BY name

-- put_away --
-- Since when a bulk load is under way.
SELECT min(put_away_at) AS put_away_at FROM knowledge_put_away_indexes

-- create --
-- Inverted file over vectors of half precision, beside readers and writers.
CREATE INDEX CONCURRENTLY {name} ON knowledge_documents
USING ivfflat ((embedding::halfvec({dimensions})) halfvec_cosine_ops) WITH (lists = {lists})
WHERE tags @> {tag}::text[]

-- drop --
-- Beside readers and writers.
DROP INDEX CONCURRENTLY IF EXISTS {name}

-- statistics --
-- Whether the planner knows the table: when it was last looked at, and how much changed since.
SELECT n_live_tup AS rows, n_mod_since_analyze AS changed,
       greatest(last_analyze, last_autoanalyze) IS NULL AS never_analyzed
FROM pg_stat_user_tables WHERE relid = 'knowledge_documents'::regclass

-- analyze --
-- Row estimates decide how a query is answered.
ANALYZE knowledge_documents
