-- A word of the title or of a heading counts twice (docs/adr/0008-lexical-leg-and-fusion.md).

LOCK TABLE knowledge_documents IN SHARE MODE;  -- nobody writes words by the former text meanwhile

-- What a document's words are: title and headings, each once, all that again, then its content. Only the words are
-- doubled: what is embedded has the headings once (documents/fingerprint.py).
CREATE OR REPLACE FUNCTION knowledge_searchable_text(content text, metadata jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT coalesce(repeat(string_agg(heading, ' > ' ORDER BY place) || E'\n', 2), '') || content
    FROM (
        SELECT regexp_replace(value #>> '{}', '^\s+|\s+$', '', 'g') AS heading, min(place) AS place
        FROM (
            SELECT metadata -> 'title' AS value, 0::bigint AS place
            UNION ALL
            SELECT value, place
            FROM jsonb_array_elements(CASE jsonb_typeof(metadata -> 'heading_path')
                                           WHEN 'array' THEN metadata -> 'heading_path' ELSE '[]' END)
                 WITH ORDINALITY AS part (value, place)
        ) AS part
        WHERE jsonb_typeof(value) = 'string'
        GROUP BY heading
    ) AS headings
    WHERE heading <> ''
);

UPDATE knowledge_document_words AS words
SET lexemes = fresh.lexemes, length = knowledge_count_words(fresh.lexemes)
FROM knowledge_search_languages,
     knowledge_documents AS document,
     LATERAL (SELECT knowledge_lexemes(language, knowledge_searchable_text(content, metadata)) AS lexemes OFFSET 0) AS fresh
WHERE collection = 'documents' AND words.id = document.id AND words.lexemes <> fresh.lexemes;

SELECT knowledge_fold_word_changes();
