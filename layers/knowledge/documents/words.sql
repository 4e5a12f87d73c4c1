-- statistics --
-- Of the question's words, and of the empty one that stands for any: how many live documents hold each, how often the
-- question does, and how long all documents are together. Rows that expired and are not removed yet are taken off, word
-- by word while they are few; of more it is taken that they hold the same words as others.
WITH asked AS MATERIALIZED (
    SELECT lexeme AS word, cardinality(positions) AS times,
           ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')::tsquery AS condition
    FROM knowledge_search_languages, unnest(knowledge_lexemes(language, %(text)s))
    WHERE collection = 'documents'
    UNION ALL
    SELECT '', 0, NULL
),
counted AS MATERIALIZED (
    SELECT asked.word, times, condition,
           coalesce(total.documents, 0) + coalesce(changed.documents, 0) AS documents,
           coalesce(total.occurrences, 0) + coalesce(changed.occurrences, 0) AS occurrences
    FROM asked
    LEFT JOIN knowledge_word_totals AS total ON total.collection = 'documents' AND total.word = asked.word
    CROSS JOIN LATERAL (
        SELECT sum(documents)::bigint AS documents, sum(occurrences)::bigint AS occurrences
        FROM knowledge_word_changes AS change
        WHERE change.collection = 'documents' AND change.word = asked.word
    ) AS changed
),
expired AS MATERIALIZED (
    SELECT count(*) AS documents, count(*) > %(few)s AS are_many FROM knowledge_document_words WHERE expires_at <= now()
),
few AS MATERIALIZED (
    SELECT lexemes, length FROM knowledge_document_words
    WHERE expires_at <= now() AND NOT (SELECT are_many FROM expired)
),
live AS MATERIALIZED (
    SELECT CASE WHEN are_many THEN greatest(0, 1 - expired.documents / nullif(counted.documents, 0)::float8)
           ELSE 1 END AS share
    FROM expired, counted WHERE word = ''
)
SELECT word, times,
       ceil(counted.documents * share)::bigint - gone.documents AS documents,
       ceil(counted.occurrences * share)::bigint - gone.occurrences AS occurrences
FROM live
CROSS JOIN counted
CROSS JOIN LATERAL (
    SELECT count(*) AS documents, coalesce(sum(length), 0) AS occurrences
    FROM few WHERE condition IS NULL OR lexemes @@ condition
) AS gone

-- estimate_matches --
-- The planner's estimate of the live rows that a tag filter admits.
EXPLAIN (FORMAT JSON)
SELECT FROM knowledge_document_words WHERE {tags} AND (expires_at IS NULL OR expires_at > now())

-- rank --
-- The live documents that a tag filter and a condition on their words admit, by BM25. The filter is used by its index or
-- on the rows. "OFFSET 0": norm is one value, and what stands outside uses no index.
SELECT id, score
FROM (
    SELECT id, {score} AS score
    FROM (
        SELECT id, tags, lexemes, %(k1)s * (1 - %(b)s + %(b)s * length / %(mean_length)s::float8) AS norm
        FROM knowledge_document_words
        WHERE lexemes @@ %(condition)s::tsquery AND {tags_by_index} AND (expires_at IS NULL OR expires_at > now())
        OFFSET 0
    ) AS candidate
    WHERE {tags_by_row}
) AS scored
ORDER BY score DESC, id
LIMIT %(limit)s

-- score --
-- What live documents score that were found otherwise.
SELECT id, {score} AS score
FROM (
    SELECT id, lexemes, %(k1)s * (1 - %(b)s + %(b)s * length / %(mean_length)s::float8) AS norm
    FROM knowledge_document_words
    WHERE id = ANY (%(ids)s::text[]) AND (expires_at IS NULL OR expires_at > now())
    OFFSET 0
) AS candidate

-- fold --
-- Add what changed up to the totals.
SELECT knowledge_fold_word_changes() AS folded

-- language --
-- The text search configuration that the words are made by.
SELECT language::text FROM knowledge_search_languages WHERE collection = 'documents'

-- has_language --
-- Whether there is a text search configuration of this name.
SELECT FROM pg_ts_config WHERE cfgname = %(language)s AND pg_ts_config_is_visible(oid)

-- hold_writers --
-- Nobody writes words in the former language meanwhile.
LOCK TABLE knowledge_documents IN SHARE MODE

-- count_change --
-- Answers that were kept are stale: the words count otherwise now.
INSERT INTO knowledge_changes (collection, changes) VALUES ('documents', 1)

-- set_language --
-- Another text search configuration; true when it was another before.
UPDATE knowledge_search_languages SET language = %(language)s::regconfig
WHERE collection = 'documents' AND language <> %(language)s::regconfig

-- rewrite --
-- The words of all documents anew.
UPDATE knowledge_document_words AS words
SET lexemes = fresh.lexemes, length = knowledge_count_words(fresh.lexemes)
FROM knowledge_search_languages,
     knowledge_documents AS document,
     LATERAL (SELECT knowledge_lexemes(language, knowledge_searchable_text(content, metadata)) AS lexemes OFFSET 0) AS fresh
WHERE collection = 'documents' AND words.id = document.id
