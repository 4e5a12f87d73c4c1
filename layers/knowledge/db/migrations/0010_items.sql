-- The Knowledge Layer (docs/adr/0015-items-and-provenance.md): governed items, and a provenance log that the database
-- itself protects. Everything is in a schema of its own, whose objects belong to roles that cannot log in.
--
--   knowledge_layer_owner    owns the tables; nobody works as it
--   knowledge_layer_eraser   owns the one function that deletes; nobody works as it
--   knowledge_layer_app      what an agent's session may do: read, write items, append to the log
--   knowledge_layer_steward  that, and what only the estate's owner may: delete, grant, make compartments
--
-- Roles are the whole server's, so another database, or another migration at this moment, may have made them.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['knowledge_layer_owner', 'knowledge_layer_eraser',
                                  'knowledge_layer_app', 'knowledge_layer_steward'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- made by a migration of another database meanwhile
            END;
        END IF;
    END LOOP;

    -- Whoever makes a role may hand it out, itself included, but does not have it by that. It inherits an agent's rights
    -- and no more, so that it can dump its database as before.
    PERFORM set_config('knowledge.lent_roles', '', true);
    FOREACH wanted IN ARRAY ARRAY['knowledge_layer_owner', 'knowledge_layer_eraser',
                                  'knowledge_layer_app', 'knowledge_layer_steward'] LOOP
        IF NOT pg_has_role(current_user, wanted, 'SET') THEN
            BEGIN
                EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT %s, SET TRUE', wanted,
                               CASE wanted WHEN 'knowledge_layer_app' THEN 'TRUE' ELSE 'FALSE' END);
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'the role % exists and is not for % to use', wanted, current_user USING
                    ERRCODE = 'insufficient_privilege',
                    HINT = format('As its creator: GRANT %I TO %I WITH ADMIN OPTION', wanted, current_user);
            END;
            IF wanted IN ('knowledge_layer_owner', 'knowledge_layer_eraser') THEN  -- for this migration only
                PERFORM set_config('knowledge.lent_roles',
                                   concat_ws(' ', nullif(current_setting('knowledge.lent_roles'), ''), wanted), true);
            END IF;
        END IF;
    END LOOP;
    IF NOT pg_has_role('knowledge_layer_steward', 'knowledge_layer_app', 'USAGE') THEN
        GRANT knowledge_layer_app TO knowledge_layer_steward;
    END IF;
    PERFORM set_config('knowledge.role_before', current_setting('role'), true);
END
$$;

CREATE SCHEMA knowledge_layer AUTHORIZATION knowledge_layer_owner;

SET LOCAL ROLE knowledge_layer_owner;

GRANT USAGE ON SCHEMA knowledge_layer TO knowledge_layer_app, knowledge_layer_eraser;

-- Compartments: an item is in exactly one. No link crosses the edge of one that has a firewall.

CREATE TABLE knowledge_layer.compartments (
    id          text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    is_firewall boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO knowledge_layer.compartments (id, is_firewall) VALUES ('divorce', true);

-- The words of an item. What does not fit into a tsvector (1 MB) is left out from the end.
CREATE FUNCTION knowledge_layer.searchable(title text, summary text, body jsonb) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words text := concat_ws(E'\n', title, summary,
        (SELECT string_agg(part #>> '{}', E'\n') FROM jsonb_path_query(body, 'strict $.**') AS part
         WHERE jsonb_typeof(part) IN ('string', 'number')));
    taken integer := 1048576;
BEGIN
    LOOP
        BEGIN
            RETURN to_tsvector('english', left(words, taken));
        EXCEPTION WHEN program_limit_exceeded THEN
            taken := taken / 2;
        END;
    END LOOP;
END
$$;

CREATE TABLE knowledge_layer.items (
    id                  text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$'),
    type                text NOT NULL CHECK (type IN ('fact', 'preference', 'decision', 'project', 'document',
                                                      'episode', 'person', 'commitment')),
    title               text NOT NULL CHECK (title <> ''),
    summary             text NOT NULL DEFAULT '',
    body                jsonb,
    body_ref            text,
    compartment         text NOT NULL COLLATE "C" REFERENCES knowledge_layer.compartments,
    tags                text[] NOT NULL DEFAULT '{}',
    domain_at           timestamptz,           -- domain time: when what it says is, or is due
    tier                text NOT NULL CHECK (tier IN ('working', 'short-term', 'long-term', 'archive')),
    gate_state          text NOT NULL DEFAULT 'none' CHECK (gate_state IN ('none', 'candidate', 'admitted', 'declined')),
    gate_decided_at     timestamptz,
    promoted_at         timestamptz,           -- by hand, last
    version             integer NOT NULL DEFAULT 1 CHECK (version > 0),
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),  -- of its content; a change of tier is none
    last_accessed_at    timestamptz,
    effective_access_at timestamptz GENERATED ALWAYS AS (greatest(updated_at, last_accessed_at)) STORED,
    search_text         tsvector GENERATED ALWAYS AS (knowledge_layer.searchable(title, summary, body)) STORED,
    CHECK (num_nonnulls(body, body_ref) = 1)
) WITH (fillfactor = 80);  -- a get moves last_accessed_at, which no index holds

CREATE INDEX items_search_text ON knowledge_layer.items USING gin (search_text);
CREATE INDEX items_compartment ON knowledge_layer.items (compartment, tier);
CREATE INDEX items_domain_at ON knowledge_layer.items (domain_at) WHERE domain_at IS NOT NULL;

CREATE TABLE knowledge_layer.item_versions (
    item_id       text COLLATE "C" NOT NULL REFERENCES knowledge_layer.items,
    version       integer NOT NULL,
    type          text NOT NULL,
    title         text NOT NULL,
    summary       text NOT NULL,
    body          jsonb,
    body_ref      text,
    compartment   text NOT NULL COLLATE "C" REFERENCES knowledge_layer.compartments,
    tags          text[] NOT NULL,
    domain_at     timestamptz,
    tier          text NOT NULL,
    written_at    timestamptz NOT NULL,
    superseded_at timestamptz NOT NULL,
    PRIMARY KEY (item_id, version)
);

CREATE TABLE knowledge_layer.item_links (
    from_id    text COLLATE "C" NOT NULL REFERENCES knowledge_layer.items,
    to_id      text COLLATE "C" NOT NULL REFERENCES knowledge_layer.items,
    relation   text NOT NULL CHECK (relation ~ '^[a-z][a-z_]{0,62}$'),
    to_version integer,  -- an earlier version, where it is not the item as such that is meant
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (from_id, to_id, relation, to_version),
    CHECK (from_id <> to_id OR (relation = 'supersedes' AND to_version IS NOT NULL))
);
CREATE INDEX item_links_to ON knowledge_layer.item_links (to_id);

-- Vectors of chunks, of any model; a model's rows have an index of their own, for its dimensions.
CREATE TABLE knowledge_layer.item_embeddings (
    item_id      text COLLATE "C" NOT NULL REFERENCES knowledge_layer.items,
    chunk        integer NOT NULL CHECK (chunk >= 0),
    model        text NOT NULL,
    version      text NOT NULL,     -- the model's
    item_version integer NOT NULL,  -- what was embedded; less than the item's version means it is due again
    embedding    vector NOT NULL,
    PRIMARY KEY (item_id, model, version, chunk)
);
CREATE INDEX item_embeddings_kl_hash_embed_1 ON knowledge_layer.item_embeddings
    USING hnsw ((embedding::vector(384)) vector_cosine_ops)
    WHERE model = 'kl-hash-embed' AND version = '1';

-- Who read what. A session can say what it read, and not who it was or when.
CREATE TABLE knowledge_layer.access_events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id     text COLLATE "C" NOT NULL,
    accessed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text NOT NULL DEFAULT current_setting('knowledge_layer.actor', true),
    actor_class text NOT NULL DEFAULT current_setting('knowledge_layer.actor_class', true),
    db_user     text NOT NULL DEFAULT session_user
);
CREATE INDEX access_events_item ON knowledge_layer.access_events (item_id, accessed_at);

CREATE TABLE knowledge_layer.agent_grants (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent       text COLLATE "C" NOT NULL CHECK (agent <> ''),
    compartment text NOT NULL COLLATE "C" REFERENCES knowledge_layer.compartments,
    may_write   boolean NOT NULL DEFAULT false,
    granted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    granted_by  text NOT NULL DEFAULT '',
    revoked_at  timestamptz,
    revoked_by  text
);
CREATE UNIQUE INDEX agent_grants_in_force ON knowledge_layer.agent_grants (agent, compartment) WHERE revoked_at IS NULL;

-- What is left of a deleted item: nothing of its content.
CREATE TABLE knowledge_layer.item_tombstones (
    item_id    text COLLATE "C" PRIMARY KEY,
    type       text NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_by text NOT NULL
);

-- Items made from several sources of which one was deleted: for the owner to decide.
CREATE TABLE knowledge_layer.derivative_flags (
    item_id    text COLLATE "C" NOT NULL REFERENCES knowledge_layer.items,
    source_id  text COLLATE "C" NOT NULL,
    flagged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kept_at    timestamptz,  -- the decision: it stays, whatever else it was made from is deleted
    kept_by    text,
    PRIMARY KEY (item_id, source_id)
);

-- The log. No foreign key leads to it or from it: a cascade runs with the owner's rights. Each row's hash covers the row
-- before, so that whoever changes the past must change all that follows. It is over the place, the item and the digest
-- of all else, and those three outlive the row when its item is deleted: the chain is whole then, too. The nonce keeps
-- the digest that is left from confirming a guess of what it was of.
CREATE TABLE knowledge_layer.provenance_events (
    seq         bigint PRIMARY KEY,
    recorded_at timestamptz NOT NULL,
    event       text NOT NULL CHECK (event IN (
                    'created', 'updated', 'linked', 'promoted', 'tier_moved', 'gate_candidate', 'gate_admitted',
                    'gate_declined', 'deleted', 'kept', 'granted', 'revoked', 'noted', 'imported', 'exported')),
    item_id     text COLLATE "C",
    actor       text NOT NULL,
    actor_class text NOT NULL,
    db_user     text NOT NULL,
    detail      jsonb NOT NULL DEFAULT '{}',
    nonce       uuid NOT NULL,
    digest      bytea NOT NULL,
    hash        bytea NOT NULL
);
CREATE INDEX provenance_events_item ON knowledge_layer.provenance_events (item_id, seq);

-- Content of items is kept out of the planner's statistics, where a deletion would not reach it.
ALTER TABLE knowledge_layer.items
    ALTER title SET STATISTICS 0, ALTER summary SET STATISTICS 0, ALTER body SET STATISTICS 0,
    ALTER body_ref SET STATISTICS 0, ALTER tags SET STATISTICS 0, ALTER search_text SET STATISTICS 0;
ALTER TABLE knowledge_layer.item_versions
    ALTER title SET STATISTICS 0, ALTER summary SET STATISTICS 0, ALTER body SET STATISTICS 0,
    ALTER body_ref SET STATISTICS 0, ALTER tags SET STATISTICS 0;
ALTER TABLE knowledge_layer.item_embeddings ALTER embedding SET STATISTICS 0;
ALTER INDEX knowledge_layer.item_embeddings_kl_hash_embed_1 ALTER COLUMN 1 SET STATISTICS 0;
ALTER TABLE knowledge_layer.provenance_events ALTER detail SET STATISTICS 0;

-- Texts as one that tells where each begins: "1:a,-,2:bc" of a, NULL and bc.
CREATE FUNCTION knowledge_layer.joined(VARIADIC texts text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(coalesce(octet_length(part)::text || ':' || part, '-'), ',' ORDER BY place)
    FROM unnest(texts) WITH ORDINALITY AS parts (part, place)
$$;

-- The log's triggers run as whoever writes, for they ask who that is.

CREATE FUNCTION knowledge_layer.seal_event() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last_seq  bigint;
    last_hash bytea;
BEGIN
    IF NEW.event NOT IN ('noted', 'imported', 'exported')
       AND current_user NOT IN ('knowledge_layer_owner', 'knowledge_layer_eraser') THEN
        RAISE EXCEPTION 'only the database itself records that something was %', NEW.event
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(1263292492, 1);  -- one writer of the chain at a time, to its commit
    SELECT seq, hash INTO last_seq, last_hash FROM knowledge_layer.provenance_events ORDER BY seq DESC LIMIT 1;
    NEW.seq := coalesce(last_seq, 0) + 1;
    NEW.recorded_at := clock_timestamp();
    NEW.actor := coalesce(nullif(current_setting('knowledge_layer.actor', true), ''), session_user);
    NEW.actor_class := coalesce(nullif(current_setting('knowledge_layer.actor_class', true), ''), 'none');
    NEW.db_user := session_user;
    NEW.nonce := gen_random_uuid();
    NEW.digest := sha256(convert_to(knowledge_layer.joined(
        to_char(NEW.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), NEW.event, NEW.actor,
        NEW.actor_class, NEW.db_user, NEW.detail::text, NEW.nonce::text), 'UTF8'));
    NEW.hash := sha256(coalesce(last_hash, sha256(''))
                       || convert_to(knowledge_layer.joined(NEW.seq::text, NEW.item_id), 'UTF8') || NEW.digest);
    RETURN NEW;
END
$$;

CREATE FUNCTION knowledge_layer.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_user = 'knowledge_layer_eraser' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'provenance is append-only: % is refused', TG_OP USING ERRCODE = 'KL002';
END
$$;

CREATE TRIGGER seal BEFORE INSERT ON knowledge_layer.provenance_events
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.seal_event();
CREATE TRIGGER refuse_row_change BEFORE UPDATE OR DELETE ON knowledge_layer.provenance_events
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON knowledge_layer.provenance_events
    FOR EACH STATEMENT EXECUTE FUNCTION knowledge_layer.refuse_change();
ALTER TABLE knowledge_layer.provenance_events
    ENABLE ALWAYS TRIGGER seal, ENABLE ALWAYS TRIGGER refuse_row_change, ENABLE ALWAYS TRIGGER refuse_change;

-- What happens to items is recorded by the tables themselves, so that no statement of whoever writes can leave it out.
-- After the row, not before: a trigger before it would have the words of an item computed again at each get.

CREATE FUNCTION knowledge_layer.follow_item() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    salt     uuid := gen_random_uuid();
    happened text;
    detail   jsonb;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF EXISTS (SELECT FROM knowledge_layer.item_tombstones WHERE item_id = NEW.id) THEN
            RAISE EXCEPTION 'an item of this id was deleted' USING ERRCODE = 'KL004';
        END IF;
        happened := 'created';
    ELSIF NEW.version <> OLD.version OR (NEW.type, NEW.title, NEW.summary, NEW.compartment, NEW.tags)
          IS DISTINCT FROM (OLD.type, OLD.title, OLD.summary, OLD.compartment, OLD.tags)
          OR (NEW.body, NEW.body_ref, NEW.domain_at) IS DISTINCT FROM (OLD.body, OLD.body_ref, OLD.domain_at) THEN
        IF NEW.version <> OLD.version + 1 THEN
            RAISE EXCEPTION 'version % follows %', NEW.version, OLD.version USING ERRCODE = 'KL005';
        END IF;
        INSERT INTO knowledge_layer.item_versions (item_id, version, type, title, summary, body, body_ref, compartment,
                                                   tags, domain_at, tier, written_at, superseded_at)
        VALUES (OLD.id, OLD.version, OLD.type, OLD.title, OLD.summary, OLD.body, OLD.body_ref, OLD.compartment,
                OLD.tags, OLD.domain_at, OLD.tier, OLD.updated_at, NEW.updated_at);
        INSERT INTO knowledge_layer.item_links (from_id, to_id, relation, to_version)
        VALUES (NEW.id, NEW.id, 'supersedes', OLD.version);
        happened := 'updated';
    ELSIF NEW.promoted_at IS DISTINCT FROM OLD.promoted_at THEN
        happened := 'promoted';
    ELSIF NEW.gate_state <> 'none'
          AND (NEW.gate_state, NEW.gate_decided_at) IS DISTINCT FROM (OLD.gate_state, OLD.gate_decided_at) THEN
        happened := 'gate_' || NEW.gate_state;
    ELSE
        happened := 'tier_moved';
    END IF;

    IF TG_OP = 'UPDATE' THEN
        IF NEW.tier = 'long-term' AND OLD.tier <> 'long-term' AND NEW.gate_state <> 'admitted' THEN
            RAISE EXCEPTION 'only the gate leads to long-term' USING ERRCODE = 'KL003';
        END IF;
        IF NEW.compartment <> OLD.compartment AND EXISTS (
            SELECT FROM knowledge_layer.item_links AS link
            JOIN knowledge_layer.items AS other
                ON other.id = CASE link.from_id WHEN NEW.id THEN link.to_id ELSE link.from_id END
            JOIN knowledge_layer.compartments AS edge
                ON edge.id IN (other.compartment, NEW.compartment) AND edge.is_firewall
            WHERE NEW.id IN (link.from_id, link.to_id) AND other.compartment <> NEW.compartment) THEN
            RAISE EXCEPTION 'a link would cross a firewall' USING ERRCODE = 'KL001';
        END IF;
    END IF;

    detail := jsonb_build_object('version', NEW.version, 'type', NEW.type, 'compartment', NEW.compartment,
                                 'tier', NEW.tier, 'gate_state', NEW.gate_state);
    IF happened IN ('created', 'updated') THEN
        detail := detail || jsonb_build_object('salt', salt, 'content', encode(sha256(convert_to(jsonb_build_array(
            salt, NEW.type, NEW.title, NEW.summary, NEW.body, NEW.body_ref, NEW.compartment, NEW.tags,
            extract(epoch FROM NEW.domain_at))::text, 'UTF8')), 'hex'));
    END IF;
    IF TG_OP = 'UPDATE' THEN
        detail := detail || jsonb_build_object('before', jsonb_build_object(
            'tier', OLD.tier, 'gate_state', OLD.gate_state));
        IF (NEW.type, NEW.compartment) IS DISTINCT FROM (OLD.type, OLD.compartment) THEN
            detail := detail || jsonb_build_object('changed', jsonb_build_object(
                'type', jsonb_build_object('before', OLD.type, 'after', NEW.type),
                'compartment', jsonb_build_object('before', OLD.compartment, 'after', NEW.compartment)));
        END IF;
    END IF;
    INSERT INTO knowledge_layer.provenance_events (event, item_id, detail) VALUES (happened, NEW.id, detail);
    RETURN NULL;
END
$$;

CREATE TRIGGER follow_new AFTER INSERT ON knowledge_layer.items
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.follow_item();
CREATE TRIGGER follow_change
    AFTER UPDATE OF version, type, title, summary, body, body_ref, compartment, tags, domain_at,
                    tier, gate_state, gate_decided_at, promoted_at ON knowledge_layer.items
    FOR EACH ROW WHEN (
        (OLD.version, OLD.type, OLD.title, OLD.summary, OLD.compartment, OLD.tags, OLD.tier, OLD.gate_state)
            IS DISTINCT FROM
        (NEW.version, NEW.type, NEW.title, NEW.summary, NEW.compartment, NEW.tags, NEW.tier, NEW.gate_state)
        OR (OLD.body, OLD.body_ref, OLD.domain_at, OLD.gate_decided_at, OLD.promoted_at)
            IS DISTINCT FROM (NEW.body, NEW.body_ref, NEW.domain_at, NEW.gate_decided_at, NEW.promoted_at))
    EXECUTE FUNCTION knowledge_layer.follow_item();

CREATE FUNCTION knowledge_layer.follow_link() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here  text;
    there text;
BEGIN
    IF NEW.from_id = NEW.to_id THEN
        RETURN NULL;  -- an item and its own earlier version; the update itself is recorded
    END IF;
    -- Held, so that neither moves to another compartment before this link can be seen.
    PERFORM FROM knowledge_layer.items WHERE id IN (NEW.from_id, NEW.to_id) ORDER BY id FOR SHARE;
    SELECT compartment INTO here FROM knowledge_layer.items WHERE id = NEW.from_id;
    SELECT compartment INTO there FROM knowledge_layer.items WHERE id = NEW.to_id;
    IF here <> there THEN
        PERFORM FROM knowledge_layer.compartments WHERE id IN (here, there) AND is_firewall FOR SHARE;
        IF FOUND THEN
            RAISE EXCEPTION 'no link crosses a firewall' USING ERRCODE = 'KL001';
        END IF;
    END IF;
    INSERT INTO knowledge_layer.provenance_events (event, item_id, detail)
    VALUES ('linked', NEW.from_id, jsonb_build_object('to', NEW.to_id, 'relation', NEW.relation));
    RETURN NULL;
END
$$;

CREATE TRIGGER follow_link AFTER INSERT OR UPDATE ON knowledge_layer.item_links
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.follow_link();

CREATE FUNCTION knowledge_layer.guard_firewall() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM knowledge_layer.item_links AS link
        JOIN knowledge_layer.items AS source ON source.id = link.from_id
        JOIN knowledge_layer.items AS target ON target.id = link.to_id
        WHERE source.compartment <> target.compartment AND NEW.id IN (source.compartment, target.compartment)) THEN
        RAISE EXCEPTION 'links cross the edge of this compartment' USING ERRCODE = 'KL001';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER guard_firewall AFTER UPDATE ON knowledge_layer.compartments
    FOR EACH ROW WHEN (NEW.is_firewall AND NOT OLD.is_firewall) EXECUTE FUNCTION knowledge_layer.guard_firewall();

-- A grant is given and taken back, never rewritten.
CREATE FUNCTION knowledge_layer.date_grant() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    who text := coalesce(nullif(current_setting('knowledge_layer.actor', true), ''), session_user);
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.granted_at := clock_timestamp();
        NEW.granted_by := who;
        NEW.revoked_at := NULL;
        NEW.revoked_by := NULL;
    ELSE
        IF OLD.revoked_at IS NOT NULL THEN
            RAISE EXCEPTION 'this grant was revoked' USING ERRCODE = 'KL002';
        END IF;
        NEW := OLD;
        NEW.revoked_at := clock_timestamp();
        NEW.revoked_by := who;
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION knowledge_layer.follow_grant() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO knowledge_layer.provenance_events (event, detail)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'granted' ELSE 'revoked' END,
            jsonb_build_object('agent', NEW.agent, 'compartment', NEW.compartment, 'may_write', NEW.may_write));
    RETURN NULL;
END
$$;

CREATE TRIGGER date_grant BEFORE INSERT OR UPDATE ON knowledge_layer.agent_grants
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.date_grant();
CREATE TRIGGER follow_grant AFTER INSERT OR UPDATE ON knowledge_layer.agent_grants
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.follow_grant();

CREATE FUNCTION knowledge_layer.follow_keeping() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO knowledge_layer.provenance_events (event, item_id, detail)
    VALUES ('kept', NEW.item_id, jsonb_build_object('source', NEW.source_id));
    RETURN NULL;
END
$$;

CREATE TRIGGER follow_keeping AFTER UPDATE ON knowledge_layer.derivative_flags
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.follow_keeping();

ALTER TABLE knowledge_layer.derivative_flags ENABLE ALWAYS TRIGGER follow_keeping;
ALTER TABLE knowledge_layer.items ENABLE ALWAYS TRIGGER follow_new, ENABLE ALWAYS TRIGGER follow_change;
ALTER TABLE knowledge_layer.item_links ENABLE ALWAYS TRIGGER follow_link;
ALTER TABLE knowledge_layer.compartments ENABLE ALWAYS TRIGGER guard_firewall;
ALTER TABLE knowledge_layer.agent_grants ENABLE ALWAYS TRIGGER date_grant, ENABLE ALWAYS TRIGGER follow_grant;

-- Who may do what.

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA knowledge_layer FROM PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA knowledge_layer TO knowledge_layer_app, knowledge_layer_eraser;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA knowledge_layer TO knowledge_layer_app;
GRANT EXECUTE ON FUNCTION knowledge_layer.searchable TO knowledge_layer_app;
GRANT EXECUTE ON FUNCTION knowledge_layer.joined TO knowledge_layer_app, knowledge_layer_eraser;

GRANT INSERT, UPDATE (type, title, summary, body, body_ref, compartment, tags, domain_at, tier, gate_state,
                      gate_decided_at, promoted_at, version, updated_at, last_accessed_at)
    ON knowledge_layer.items TO knowledge_layer_app;
GRANT INSERT ON knowledge_layer.item_links, knowledge_layer.provenance_events TO knowledge_layer_app;
GRANT INSERT (item_id) ON knowledge_layer.access_events TO knowledge_layer_app;
GRANT INSERT, UPDATE, DELETE ON knowledge_layer.item_embeddings TO knowledge_layer_app;

GRANT INSERT (id, is_firewall) ON knowledge_layer.compartments TO knowledge_layer_steward;
GRANT INSERT (agent, compartment, may_write), UPDATE (revoked_at)
    ON knowledge_layer.agent_grants TO knowledge_layer_steward;
GRANT UPDATE (kept_at, kept_by) ON knowledge_layer.derivative_flags TO knowledge_layer_steward;

GRANT DELETE ON knowledge_layer.items, knowledge_layer.item_versions, knowledge_layer.item_links,
    knowledge_layer.item_embeddings, knowledge_layer.access_events, knowledge_layer.derivative_flags,
    knowledge_layer.provenance_events TO knowledge_layer_eraser;
GRANT UPDATE (last_accessed_at) ON knowledge_layer.items TO knowledge_layer_eraser;  -- to lock rows
GRANT INSERT ON knowledge_layer.item_tombstones, knowledge_layer.derivative_flags,
    knowledge_layer.provenance_events TO knowledge_layer_eraser;

-- Rewriting a table is how its pages lose what was deleted; a privilege of its own since PostgreSQL 17.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN
        GRANT MAINTAIN ON ALL TABLES IN SCHEMA knowledge_layer TO knowledge_layer_steward;
    END IF;
END
$$;

GRANT CREATE ON SCHEMA knowledge_layer TO knowledge_layer_eraser;
SET LOCAL ROLE knowledge_layer_eraser;

-- Delete an item and what was made from it alone (links of the relation derived_from), with their versions, vectors,
-- links, accesses and provenance. What was made from others too, or is out of the session's sight (scope; NULL sees
-- all), is flagged for a decision. The event that tells of it holds of each event that went the place, the item and the
-- digest.
-- Returns {"deleted": [ids], "flagged": [ids]}, or NULL when there is no such item in sight.
CREATE FUNCTION knowledge_layer.erase_item(root text, scope text[]) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    doomed  text[] := ARRAY[root];
    more    text[];
    flagged text[];
    removed jsonb;
    who     text := coalesce(nullif(current_setting('knowledge_layer.actor', true), ''), session_user);
BEGIN
    PERFORM pg_advisory_xact_lock(1263292492, 1);  -- as in seal_event: no item or link is written meanwhile
    PERFORM FROM knowledge_layer.items WHERE id = root AND (scope IS NULL OR compartment = ANY (scope)) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    LOOP
        SELECT array_agg(item.id) INTO more
        FROM knowledge_layer.items AS item
        WHERE item.id <> ALL (doomed)
          AND (scope IS NULL OR item.compartment = ANY (scope))
          AND EXISTS (SELECT FROM knowledge_layer.item_links AS source WHERE source.from_id = item.id
                      AND source.relation = 'derived_from' AND source.to_id = ANY (doomed))
          AND NOT EXISTS (SELECT FROM knowledge_layer.item_links AS source WHERE source.from_id = item.id
                          AND source.relation = 'derived_from' AND source.to_id <> ALL (doomed))
          AND NOT EXISTS (SELECT FROM knowledge_layer.derivative_flags AS flag
                          WHERE flag.item_id = item.id AND flag.kept_at IS NOT NULL);
        EXIT WHEN more IS NULL;
        doomed := doomed || more;
    END LOOP;
    PERFORM FROM knowledge_layer.items WHERE id = ANY (doomed) ORDER BY id FOR UPDATE;

    WITH noted AS (
        INSERT INTO knowledge_layer.derivative_flags (item_id, source_id)
        SELECT DISTINCT link.from_id, link.to_id FROM knowledge_layer.item_links AS link
        WHERE link.relation = 'derived_from' AND link.to_id = ANY (doomed) AND link.from_id <> ALL (doomed)
        RETURNING item_id)
    SELECT coalesce(array_agg(DISTINCT item_id ORDER BY item_id), '{}') INTO flagged FROM noted;

    INSERT INTO knowledge_layer.item_tombstones (item_id, type, deleted_by)
    SELECT id, type, who FROM knowledge_layer.items WHERE id = ANY (doomed);
    SELECT coalesce(jsonb_agg(jsonb_build_array(seq, item_id, encode(digest, 'hex')) ORDER BY seq), '[]') INTO removed
    FROM knowledge_layer.provenance_events WHERE item_id = ANY (doomed);
    INSERT INTO knowledge_layer.provenance_events (event, item_id, detail)
    VALUES ('deleted', NULL, jsonb_build_object('items', doomed, 'flagged', flagged, 'removed', removed));

    DELETE FROM knowledge_layer.provenance_events WHERE item_id = ANY (doomed);
    DELETE FROM knowledge_layer.derivative_flags WHERE item_id = ANY (doomed);
    DELETE FROM knowledge_layer.access_events WHERE item_id = ANY (doomed);
    DELETE FROM knowledge_layer.item_embeddings WHERE item_id = ANY (doomed);
    DELETE FROM knowledge_layer.item_links WHERE from_id = ANY (doomed) OR to_id = ANY (doomed);
    DELETE FROM knowledge_layer.item_versions WHERE item_id = ANY (doomed);
    DELETE FROM knowledge_layer.items WHERE id = ANY (doomed);
    RETURN jsonb_build_object('deleted', doomed, 'flagged', flagged);
END
$$;

REVOKE EXECUTE ON FUNCTION knowledge_layer.erase_item FROM PUBLIC;
GRANT EXECUTE ON FUNCTION knowledge_layer.erase_item TO knowledge_layer_steward;

SET LOCAL ROLE knowledge_layer_owner;
REVOKE CREATE ON SCHEMA knowledge_layer FROM knowledge_layer_eraser;

-- Back to who migrates, without the two roles that nobody works as.
SELECT set_config('role', current_setting('knowledge.role_before'), true);
DO $$
DECLARE
    lent text;
BEGIN
    FOREACH lent IN ARRAY string_to_array(current_setting('knowledge.lent_roles'), ' ') LOOP
        EXECUTE format('REVOKE %I FROM CURRENT_USER', lent);
    END LOOP;
END
$$;
