-- search --
-- Both legs and their sum, in one statement. Each leg ranks only what is in the scope and the narrowing; what either
-- finds is scored by both.
WITH asked AS MATERIALIZED (
    SELECT (SELECT string_agg('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' | ')
            FROM unnest(to_tsvector('english', %(question)s)))::tsquery AS words
), by_words AS (
    SELECT item.id
    FROM knowledge_layer.items AS item, asked
    WHERE search_text @@ words AND {narrowed}
    ORDER BY ts_rank({weights}, search_text, words) DESC, item.id
    LIMIT %(reach)s
), by_meaning AS (
    SELECT item.id, vector.embedding::vector({dimensions}) <=> %(vector)s AS distance
    FROM knowledge_layer.item_embeddings AS vector
    JOIN knowledge_layer.items AS item ON item.id = vector.item_id AND item.version = vector.item_version
    WHERE vector.model = {model} AND vector.version = {version} AND {narrowed}
    ORDER BY vector.embedding::vector({dimensions}) <=> %(vector)s
    LIMIT %(reach)s
), members AS (
    SELECT item.id FROM knowledge_layer.items AS item
    WHERE %(with_all)s AND {narrowed}
    ORDER BY domain_at, item.id
    LIMIT %(reach)s
), found AS (
    SELECT id FROM by_words
    UNION SELECT id FROM by_meaning WHERE 1 - distance >= %(floor)s
    UNION SELECT id FROM members
), scored AS (
    SELECT item.id, chunk, coalesce(ts_rank({weights}, search_text, words), 0)::float8 AS lexical_score,
           CASE WHEN similarity >= %(floor)s THEN similarity ELSE 0 END AS semantic_score
    FROM found
    JOIN knowledge_layer.items AS item ON item.id = found.id AND {narrowed}
    CROSS JOIN asked
    LEFT JOIN LATERAL (
        SELECT vector.chunk, 1 - (vector.embedding::vector({dimensions}) <=> %(vector)s) AS similarity
        FROM knowledge_layer.item_embeddings AS vector
        WHERE vector.item_id = item.id AND vector.item_version = item.version
          AND vector.model = {model} AND vector.version = {version}
        ORDER BY similarity DESC, vector.chunk
        LIMIT 1) AS closest ON true
)
SELECT item.id, type, title, summary, body, compartment, tier, tags, domain_at, updated_at, item.version, chunk,
       lexical_score, semantic_score, lexical_score + semantic_score AS score
FROM scored JOIN knowledge_layer.items AS item ON item.id = scored.id
ORDER BY score DESC, domain_at, item.id
LIMIT %(limit)s
