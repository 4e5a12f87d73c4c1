-- list --
-- Compartments that a session sees.
SELECT id, is_firewall, (SELECT count(*) FROM knowledge_layer.items WHERE compartment = compartments.id) AS items
FROM knowledge_layer.compartments
WHERE %(scope)s::text[] IS NULL OR id = ANY (%(scope)s)
ORDER BY id

-- add --
-- A new compartment.
INSERT INTO knowledge_layer.compartments (id, is_firewall) VALUES (%(id)s, %(is_firewall)s)
