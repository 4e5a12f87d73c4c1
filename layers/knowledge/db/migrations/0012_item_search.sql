-- Searching items (docs/adr/0016-mcp-surface.md): by which model's vectors, to which one they are being moved, and what
-- is still to be embedded.

-- The tables' owner, for this migration only, as in 0010.
DO $$
BEGIN
    PERFORM set_config('knowledge.role_before', current_setting('role'), true);
    PERFORM set_config('knowledge.lent_roles', '', true);
    IF NOT pg_has_role(current_user, 'knowledge_layer_owner', 'SET') THEN
        GRANT knowledge_layer_owner TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
        PERFORM set_config('knowledge.lent_roles', 'knowledge_layer_owner', true);
    END IF;
END
$$;
SET LOCAL ROLE knowledge_layer_owner;

CREATE TABLE knowledge_layer.item_models (
    state      text PRIMARY KEY CHECK (state IN ('current', 'next')),
    backend    text NOT NULL,
    model      text NOT NULL,
    version    text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions > 0),
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (model, version)
);
INSERT INTO knowledge_layer.item_models (state, backend, model, version, dimensions)
VALUES ('current', 'hash', 'kl-hash-embed', '1', 384);

-- Items whose words of today have no vectors of the current model yet. No foreign key: a deletion takes the row along.
CREATE TABLE knowledge_layer.items_to_embed (
    item_id      text COLLATE "C" PRIMARY KEY,
    item_version integer NOT NULL
);
INSERT INTO knowledge_layer.items_to_embed (item_id, item_version) SELECT id, version FROM knowledge_layer.items;

CREATE FUNCTION knowledge_layer.mark_to_embed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM knowledge_layer.items_to_embed WHERE item_id = OLD.id;
    ELSE
        INSERT INTO knowledge_layer.items_to_embed (item_id, item_version) VALUES (NEW.id, NEW.version)
        ON CONFLICT (item_id) DO UPDATE SET item_version = EXCLUDED.item_version;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER mark_new_or_gone AFTER INSERT OR DELETE ON knowledge_layer.items
    FOR EACH ROW EXECUTE FUNCTION knowledge_layer.mark_to_embed();
CREATE TRIGGER mark_changed AFTER UPDATE OF version ON knowledge_layer.items
    FOR EACH ROW WHEN (OLD.version <> NEW.version) EXECUTE FUNCTION knowledge_layer.mark_to_embed();
ALTER TABLE knowledge_layer.items ENABLE ALWAYS TRIGGER mark_new_or_gone, ENABLE ALWAYS TRIGGER mark_changed;

-- The index of a model's vectors, made when there are none yet; content stays out of its statistics (0010).
CREATE FUNCTION knowledge_layer.index_vectors_of(wanted_model text, wanted_version text, dimensions integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := 'item_embeddings_' || left(encode(sha256(convert_to(wanted_model || ' ' || wanted_version, 'UTF8')),
                                                   'hex'), 16);
    pgvector text := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'vector');
BEGIN
    IF (wanted_model, wanted_version) = ('kl-hash-embed', '1')
       OR to_regclass('knowledge_layer.' || name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE INDEX %I ON knowledge_layer.item_embeddings '
                   'USING hnsw ((embedding::%s.vector(%s)) %s.vector_cosine_ops) WHERE model = %L AND version = %L',
                   name, pgvector, dimensions, pgvector, wanted_model, wanted_version);
    EXECUTE format('ALTER INDEX knowledge_layer.%I ALTER COLUMN 1 SET STATISTICS 0', name);
END
$$;

REVOKE EXECUTE ON FUNCTION knowledge_layer.mark_to_embed, knowledge_layer.index_vectors_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION knowledge_layer.index_vectors_of TO knowledge_layer_steward;
GRANT SELECT ON knowledge_layer.item_models, knowledge_layer.items_to_embed TO knowledge_layer_app;
GRANT DELETE ON knowledge_layer.items_to_embed TO knowledge_layer_app;
GRANT INSERT, UPDATE (state, since), DELETE ON knowledge_layer.item_models TO knowledge_layer_steward;

DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN  -- as in 0010
        GRANT MAINTAIN ON knowledge_layer.items_to_embed TO knowledge_layer_steward;
    END IF;
END
$$;

SELECT set_config('role', current_setting('knowledge.role_before'), true);
DO $$
BEGIN
    IF current_setting('knowledge.lent_roles') <> '' THEN
        REVOKE knowledge_layer_owner FROM CURRENT_USER;
    END IF;
END
$$;
