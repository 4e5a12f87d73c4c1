-- begin --
-- From here to the end of the transaction: this role's rights, in this name.
SELECT set_config('knowledge_layer.actor', %(actor)s, true),
       set_config('knowledge_layer.actor_class', %(actor_class)s, true),
       set_config('role', %(role)s, true)

-- begin_writing --
-- The same, and alone with the end of the provenance chain: taken before any row, so that writers never deadlock.
SELECT set_config('knowledge_layer.actor', %(actor)s, true),
       set_config('knowledge_layer.actor_class', %(actor_class)s, true),
       set_config('role', %(role)s, true),
       pg_advisory_xact_lock(1263292492, 1)
