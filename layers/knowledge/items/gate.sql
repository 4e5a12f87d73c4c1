-- candidates --
-- Items before the gate, coldest first.
SELECT {columns}, {links} AS links FROM knowledge_layer.items AS item
WHERE {candidate} AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
ORDER BY effective_access_at, id
LIMIT %(limit)s

-- admit --
-- Through the gate.
UPDATE knowledge_layer.items SET tier = 'long-term', gate_state = 'admitted', gate_decided_at = clock_timestamp()
WHERE id = %(id)s AND {candidate} AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))

-- decline --
-- Not through the gate.
UPDATE knowledge_layer.items SET gate_state = 'declined', gate_decided_at = clock_timestamp()
WHERE id = %(id)s AND {candidate} AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
