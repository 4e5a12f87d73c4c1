-- The last queries that took long, with their plans and timings and without their texts, for operators to look at.

CREATE TABLE knowledge_slow_queries (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    details  jsonb NOT NULL
);

-- A function of the owner's, so that a user who may only read documents can note how a query of his went.
-- Rows beyond the last ones go in the same statement; one that a neighbour is removing is passed over.
CREATE FUNCTION knowledge_note_slow_query(details jsonb, keep integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH beyond AS (
        SELECT id FROM knowledge_slow_queries
        WHERE id <= (SELECT id FROM knowledge_slow_queries ORDER BY id DESC OFFSET keep - 1 LIMIT 1)
        FOR UPDATE SKIP LOCKED
    ), removed AS (
        DELETE FROM knowledge_slow_queries USING beyond WHERE knowledge_slow_queries.id = beyond.id
    )
    INSERT INTO knowledge_slow_queries (details) VALUES (details)
$$;
