-- Emptying the documents at once empties what follows them, too.
CREATE FUNCTION knowledge_follow_truncate() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE knowledge_document_words, knowledge_document_people;
    DELETE FROM knowledge_word_totals WHERE collection = TG_ARGV[0];
    DELETE FROM knowledge_word_changes WHERE collection = TG_ARGV[0];
    RETURN NULL;
END
$$;

CREATE TRIGGER follow_truncate AFTER TRUNCATE ON knowledge_documents
    FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_truncate('documents');
