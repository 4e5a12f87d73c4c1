-- Words of the documents, for BM25 (docs/adr/0008-lexical-leg-and-fusion.md). Triggers keep them, whoever writes.

-- The text search configuration of each collection: which words are one word, and which are none.
CREATE TABLE knowledge_search_languages (
    collection text PRIMARY KEY,
    language   regconfig NOT NULL
);

INSERT INTO knowledge_search_languages VALUES ('documents', 'pg_catalog.english');

-- What a document is found by: title and headings, each once, then its content (documents/fingerprint.py says the same).
CREATE FUNCTION knowledge_searchable_text(content text, metadata jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT coalesce(string_agg(heading, ' > ' ORDER BY place) || E'\n', '') || content
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

-- The words of a text with their places. A text beyond 100,000 characters counts as far as that; one whose words do not
-- fit into a tsvector all the same (1 MB) as far as they fit. A tsvector keeps 255 places of a word, and that is its
-- frequency then.
CREATE FUNCTION knowledge_lexemes(language regconfig, body text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    taken integer := 100000;
BEGIN
    IF octet_length(body) < 50000 THEN
        RETURN to_tsvector(language, body);
    END IF;
    LOOP
        BEGIN
            RETURN to_tsvector(language, left(body, taken));
        EXCEPTION WHEN program_limit_exceeded THEN
            taken := taken / 2;
        END;
    END LOOP;
END
$$;

-- How many words a text has, each as often as it occurs: the length that BM25 speaks of.
CREATE FUNCTION knowledge_count_words(lexemes tsvector) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT coalesce(sum(cardinality(positions)), 0) FROM unnest(lexemes));

-- Beside the documents and not in them: their rows stay small for exact scans, and writing words anew writes no vector.
CREATE TABLE knowledge_document_words (
    id         text COLLATE "C" PRIMARY KEY,
    tags       text[] NOT NULL,
    expires_at timestamptz,
    lexemes    tsvector NOT NULL,
    length     integer NOT NULL
) WITH (toast_tuple_target = 8160);  -- in the row: ranking reads every candidate's words

ALTER TABLE knowledge_document_words ALTER COLUMN lexemes SET STORAGE MAIN;

-- In how many documents of a collection a word stands, and how often; the empty word stands for any. What is true is
-- the sum of the totals and of all changes since: writers only add changes, so none waits for another's common words.
CREATE TABLE knowledge_word_totals (
    collection  text COLLATE "C" NOT NULL,
    word        text COLLATE "C" NOT NULL,
    documents   bigint NOT NULL,
    occurrences bigint NOT NULL,
    PRIMARY KEY (collection, word)
) WITH (fillfactor = 80);

CREATE TABLE knowledge_word_changes (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection  text COLLATE "C" NOT NULL,
    word        text COLLATE "C" NOT NULL,
    documents   integer NOT NULL,
    occurrences integer NOT NULL
);

CREATE INDEX knowledge_word_changes_word ON knowledge_word_changes (collection, word);

-- Add the changes up to the totals. One does it at a time, and who comes second has nothing to do.
CREATE FUNCTION knowledge_fold_word_changes() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    folded bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('knowledge_word_changes')) THEN
        RETURN 0;
    END IF;
    WITH taken AS (
        DELETE FROM knowledge_word_changes RETURNING collection, word, documents, occurrences
    ), merged AS (
        INSERT INTO knowledge_word_totals AS total (collection, word, documents, occurrences)
        SELECT collection, word, sum(documents), sum(occurrences)
        FROM taken GROUP BY collection, word ORDER BY collection, word
        ON CONFLICT (collection, word) DO UPDATE
        SET documents = total.documents + excluded.documents, occurrences = total.occurrences + excluded.occurrences
    )
    SELECT count(*) INTO folded FROM taken;
    RETURN folded;
END
$$;

-- After each statement that writes a table of words; the trigger's argument names the collection.
CREATE FUNCTION knowledge_note_word_changes() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO knowledge_word_changes (collection, word, documents, occurrences)
        SELECT TG_ARGV[0], lexeme, count(*), sum(cardinality(positions)) FROM written, unnest(lexemes) GROUP BY lexeme
        UNION ALL
        SELECT TG_ARGV[0], '', count(*), sum(length) FROM written HAVING count(*) > 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO knowledge_word_changes (collection, word, documents, occurrences)
        SELECT TG_ARGV[0], lexeme, -count(*), -sum(cardinality(positions)) FROM gone, unnest(lexemes) GROUP BY lexeme
        UNION ALL
        SELECT TG_ARGV[0], '', -count(*), -sum(length) FROM gone HAVING count(*) > 0;
    ELSE
        INSERT INTO knowledge_word_changes (collection, word, documents, occurrences)
        SELECT TG_ARGV[0], word, sum(documents), sum(occurrences)
        FROM (
            SELECT lexeme AS word, 1 AS documents, cardinality(positions) AS occurrences FROM written, unnest(lexemes)
            UNION ALL
            SELECT lexeme, -1, -cardinality(positions) FROM gone, unnest(lexemes)
            UNION ALL
            SELECT '', 0, length FROM written
            UNION ALL
            SELECT '', 0, -length FROM gone
        ) AS change
        GROUP BY word HAVING sum(documents) <> 0 OR sum(occurrences) <> 0;
    END IF;
    IF (SELECT max(number) - min(number) FROM knowledge_word_changes) > 200000 THEN
        PERFORM knowledge_fold_word_changes();
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER note_written AFTER INSERT ON knowledge_document_words
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION knowledge_note_word_changes('documents');
CREATE TRIGGER note_rewritten AFTER UPDATE ON knowledge_document_words
    REFERENCING OLD TABLE AS gone NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION knowledge_note_word_changes('documents');
CREATE TRIGGER note_gone AFTER DELETE ON knowledge_document_words
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION knowledge_note_word_changes('documents');

-- The words of documents that are there already.
INSERT INTO knowledge_document_words (id, tags, expires_at, lexemes, length)
SELECT id, tags, expires_at, lexemes, knowledge_count_words(lexemes)
FROM knowledge_documents,
     knowledge_search_languages,
     LATERAL (SELECT knowledge_lexemes(language, knowledge_searchable_text(content, metadata)) AS lexemes OFFSET 0)
WHERE collection = 'documents';

SELECT knowledge_fold_word_changes();

-- After each statement that writes documents: their words follow in the same transaction. The plan is made anew each
-- time, for as many rows as there are.
CREATE FUNCTION knowledge_follow_documents() RETURNS trigger
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO knowledge_document_words (id, tags, expires_at, lexemes, length)
        SELECT id, tags, expires_at, lexemes, knowledge_count_words(lexemes)
        FROM written,
             knowledge_search_languages,
             LATERAL (SELECT knowledge_lexemes(language, knowledge_searchable_text(content, metadata)) AS lexemes OFFSET 0)
        WHERE collection = TG_ARGV[0];
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM knowledge_document_words USING gone WHERE knowledge_document_words.id = gone.id;
    ELSE
        UPDATE knowledge_document_words AS words
        SET tags = written.tags, expires_at = written.expires_at,
            lexemes = coalesce(fresh.lexemes, words.lexemes),
            length = coalesce(knowledge_count_words(fresh.lexemes), words.length)
        FROM knowledge_search_languages,
             written JOIN gone USING (id),
             LATERAL (
                 SELECT CASE WHEN written.content_hash <> gone.content_hash
                             THEN knowledge_lexemes(language, knowledge_searchable_text(written.content, written.metadata))
                        END AS lexemes OFFSET 0
             ) AS fresh
        WHERE collection = TG_ARGV[0] AND words.id = written.id
          AND (written.content_hash, written.tags, written.expires_at)
              IS DISTINCT FROM (gone.content_hash, gone.tags, gone.expires_at);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER words_of_written AFTER INSERT ON knowledge_documents
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_documents('documents');
CREATE TRIGGER words_of_rewritten AFTER UPDATE ON knowledge_documents
    REFERENCING OLD TABLE AS gone NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_documents('documents');
CREATE TRIGGER words_of_gone AFTER DELETE ON knowledge_documents
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_documents('documents');

CREATE INDEX knowledge_document_words_lexemes ON knowledge_document_words USING gin (lexemes);
CREATE INDEX knowledge_document_words_tags ON knowledge_document_words USING gin (tags);
CREATE INDEX knowledge_document_words_expires_at ON knowledge_document_words (expires_at) WHERE expires_at IS NOT NULL;
