-- Sync runs: who may write now, what came of it, and what a run has seen.

-- A lease with a fencing token: the token grows with every claim, and a write that carries an older one is refused.
CREATE TABLE knowledge_leases (
    name       text COLLATE "C" PRIMARY KEY,
    fence      bigint NOT NULL,
    slot       timestamptz,           -- the scheduled minute last claimed, so that an event delivered twice runs once
    expires_at timestamptz NOT NULL   -- '-infinity' when it was given back
);

CREATE TABLE knowledge_sync_runs (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL,  -- the lease: 'source:provider-wiki', 'provider:wiki'
    trigger     text NOT NULL CHECK (trigger IN ('client', 'schedule', 'manual')),
    slot        timestamptz,
    fence       bigint NOT NULL,
    status      text NOT NULL DEFAULT 'running'
                CHECK (status IN ('running', 'succeeded', 'partial', 'failed', 'skipped')),
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    created     integer NOT NULL DEFAULT 0,
    updated     integer NOT NULL DEFAULT 0,
    unchanged   integer NOT NULL DEFAULT 0,
    removed     integer NOT NULL DEFAULT 0,
    held        integer NOT NULL DEFAULT 0,  -- removals that the guard did not let through
    error       text NOT NULL DEFAULT ''
);

CREATE INDEX knowledge_sync_runs_name ON knowledge_sync_runs (name, id DESC);

-- What a run has seen. Beside the documents and not in them: marking fifty thousand unchanged documents as seen then
-- writes a few bytes for each, not its row with the vector.
CREATE TABLE knowledge_sync_seen (
    run_id      bigint NOT NULL,
    document_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, document_id)
);

-- Keys bound to a role, and for providers to a source. Only their SHA-256 is here.
CREATE TABLE knowledge_api_keys (
    digest     bytea PRIMARY KEY,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('reader', 'source', 'operator')),
    source     text CHECK ((role = 'source') = (source IS NOT NULL)),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz
);

CREATE INDEX knowledge_api_keys_name ON knowledge_api_keys (name);
