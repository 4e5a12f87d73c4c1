-- Indexes that a bulk load has put away, with the statement that brings each back.

CREATE TABLE knowledge_put_away_indexes (
    name        text PRIMARY KEY,
    definition  text NOT NULL,
    put_away_at timestamptz NOT NULL DEFAULT now()
);
