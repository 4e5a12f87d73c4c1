-- What a cached answer is compared with (docs/adr/0011-caches.md): counters that grow with every change of the documents,
-- in the changing transaction itself, so that they are seen exactly when the change is. A writer takes a counter that no
-- other holds, or adds one: none waits for another.

CREATE TABLE knowledge_changes (
    slot       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection text NOT NULL,
    changes    bigint NOT NULL
) WITH (fillfactor = 20);

CREATE FUNCTION knowledge_count_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    free bigint;
BEGIN
    IF TG_OP <> 'TRUNCATE' THEN
        IF NOT EXISTS (SELECT FROM touched) THEN  -- a statement that writes no row changes nothing
            RETURN NULL;
        END IF;
    END IF;
    SELECT slot INTO free FROM knowledge_changes
    WHERE collection = TG_ARGV[0] ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF free IS NULL THEN
        INSERT INTO knowledge_changes (collection, changes) VALUES (TG_ARGV[0], 1);
    ELSE
        UPDATE knowledge_changes SET changes = changes + 1 WHERE slot = free;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER count_inserted AFTER INSERT ON knowledge_documents
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION knowledge_count_change('documents');
CREATE TRIGGER count_updated AFTER UPDATE ON knowledge_documents
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION knowledge_count_change('documents');
CREATE TRIGGER count_deleted AFTER DELETE ON knowledge_documents
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION knowledge_count_change('documents');
CREATE TRIGGER count_truncated AFTER TRUNCATE ON knowledge_documents
    FOR EACH STATEMENT EXECUTE FUNCTION knowledge_count_change('documents');
