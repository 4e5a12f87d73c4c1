-- compare --
-- Names or addresses asked for, as they are compared: by the functions that also made what is stored.
SELECT text, (compared).plain, (compared).folded, (compared).plain_domain, (compared).folded_domain
FROM (SELECT text, place, knowledge_compare({field}, text) AS compared
      FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS asked (text, place) OFFSET 0) AS asked
ORDER BY place

-- same --
-- For each name or local part asked for, live documents with one that folds to the same, those of near domains first.
SELECT asked.place, found.*
FROM unnest(%(folded)s::text[], %(folded_domains)s::text[]) WITH ORDINALITY AS asked (folded, folded_domain, place)
CROSS JOIN LATERAL (
    SELECT document_id, own, stored AS text, plain, person.folded, plain_domain, person.folded_domain
    FROM knowledge_document_people AS person
    JOIN knowledge_documents AS document ON document.id = document_id
    WHERE field = {field} AND person.folded = asked.folded AND {tags} AND (expires_at IS NULL OR expires_at > now())
    ORDER BY similarity(person.folded_domain, asked.folded_domain) DESC, own DESC, document_id
    LIMIT %(limit)s
) AS found

-- near --
-- For each name or local part asked for, live documents with one that shares trigrams with it, the most alike first.
SELECT asked.place, found.*
FROM unnest(%(folded)s::text[], %(folded_domains)s::text[]) WITH ORDINALITY AS asked (folded, folded_domain, place)
CROSS JOIN LATERAL (
    SELECT document_id, own, stored AS text, plain, person.folded, plain_domain, person.folded_domain
    FROM knowledge_document_people AS person
    JOIN knowledge_documents AS document ON document.id = document_id
    WHERE field = {field} AND person.folded %% asked.folded AND person.folded <> asked.folded
      AND {tags} AND (expires_at IS NULL OR expires_at > now())
    ORDER BY similarity(person.folded, asked.folded) + similarity(person.folded_domain, asked.folded_domain) DESC,
             own DESC, document_id
    LIMIT %(limit)s
) AS found

-- domains --
-- Of the domains that addresses are in, each once, those that share the first letter and some trigrams with one asked
-- for. The index is read from one domain to the next, not from one address to the next, and once for each letter.
WITH RECURSIVE asked AS (
    SELECT place, folded_domain AS asked_domain, left(folded_domain, 1) AS initial
    FROM unnest(%(folded_domains)s::text[]) WITH ORDINALITY AS asked (folded_domain, place)
), known AS (
    SELECT initial, first.folded_domain, first.plain_domain
    FROM (SELECT DISTINCT initial FROM asked) AS each CROSS JOIN LATERAL (
        SELECT folded_domain, plain_domain
        FROM knowledge_document_people
        WHERE field = 'address' AND own AND folded_domain >= initial
        ORDER BY folded_domain, plain_domain LIMIT 1
    ) AS first
    UNION ALL
    SELECT initial, next.folded_domain, next.plain_domain
    FROM known CROSS JOIN LATERAL (
        SELECT person.folded_domain, person.plain_domain
        FROM knowledge_document_people AS person
        WHERE field = 'address' AND own
          AND (person.folded_domain, person.plain_domain) > (known.folded_domain, known.plain_domain)
        ORDER BY person.folded_domain, person.plain_domain LIMIT 1
    ) AS next
    WHERE left(known.folded_domain, 1) = initial
)
SELECT place, folded_domain, plain_domain
FROM asked JOIN known USING (initial)
WHERE similarity(folded_domain, asked_domain) >= 0.3
ORDER BY similarity(folded_domain, asked_domain) DESC, folded_domain, plain_domain
LIMIT 100

-- of_domain --
-- Live documents with an address of their own in a domain, in id order.
SELECT DISTINCT document_id
FROM (
    SELECT document_id
    FROM knowledge_document_people
    JOIN knowledge_documents AS document ON document.id = document_id
    WHERE field = 'address' AND own AND folded_domain = %(folded_domain)s AND plain_domain = %(plain_domain)s
      AND {tags} AND (expires_at IS NULL OR expires_at > now())
    ORDER BY document_id
    LIMIT %(limit)s
) AS found

-- documents --
-- The documents that were found.
SELECT id, content, tags, metadata, source, updated_at, expires_at
FROM knowledge_documents
WHERE id = ANY (%(ids)s::text[]) AND {tags} AND (expires_at IS NULL OR expires_at > now())
