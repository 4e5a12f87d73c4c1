-- Names and addresses of the documents (docs/adr/0009-people-and-addresses.md). Triggers keep them, whoever writes.

CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- A label of a domain name as it reads, from its punycode (RFC 3492); the label itself where that is none.
CREATE FUNCTION knowledge_read_label(label text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    encoded  text := lower(substr(label, 5));
    plain    text := coalesce(substring(encoded FROM '^(.*)-'), '');
    points   integer[] := CASE WHEN plain = '' THEN '{}'::integer[]
                               ELSE ARRAY(SELECT ascii(part) FROM regexp_split_to_table(plain, '') AS part) END;
    tail     text := substring(encoded FROM '([^-]*)$');
    place    integer := 1;      -- in tail
    point    bigint := 128;
    slot     bigint := 0;       -- where the next character is put in
    bias     integer := 72;
    earlier  bigint;
    weight   bigint;
    digit    integer;
    cut      integer;
    delta    bigint;
    size     integer;
BEGIN
    IF label !~* '^xn--[a-z0-9-]{1,59}$' THEN
        RETURN label;
    END IF;
    WHILE place <= length(tail) LOOP
        earlier := slot;
        weight := 1;
        FOR k IN 1 .. 20 LOOP
            IF place > length(tail) THEN
                RETURN label;
            END IF;
            digit := position(substr(tail, place, 1) IN 'abcdefghijklmnopqrstuvwxyz0123456789') - 1;
            place := place + 1;
            slot := slot + digit * weight;
            cut := least(26, greatest(1, 36 * k - bias));
            EXIT WHEN digit < cut;
            weight := weight * (36 - cut);
            IF weight > 2147483647 OR slot > 2147483647 THEN
                RETURN label;
            END IF;
        END LOOP;
        size := cardinality(points) + 1;
        delta := (slot - earlier) / CASE WHEN earlier = 0 THEN 700 ELSE 2 END;
        delta := delta + delta / size;
        bias := 0;
        WHILE delta > 455 LOOP
            delta := delta / 35;
            bias := bias + 36;
        END LOOP;
        bias := bias + 36 * delta / (delta + 38);
        point := point + slot / size;
        slot := slot % size;
        IF point > 1114111 OR point BETWEEN 55296 AND 57343 THEN
            RETURN label;
        END IF;
        points := points[: slot] || point::integer || points[slot + 1 :];
        slot := slot + 1;
    END LOOP;
    RETURN coalesce(
        (SELECT string_agg(chr(part), '' ORDER BY number) FROM unnest(points) WITH ORDINALITY AS read (part, number)),
        label);
END
$$;

-- A domain name as it reads.
CREATE FUNCTION knowledge_read_domain(domain text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN domain ~* '(^|\.)xn--' THEN
    (SELECT string_agg(knowledge_read_label(label), '.' ORDER BY place)
     FROM regexp_split_to_table(domain, '\.') WITH ORDINALITY AS part (label, place))
    ELSE domain END;

-- Two names or parts of addresses are the same when this is equal: case and the many ways of writing é do not count.
CREATE FUNCTION knowledge_same_text(body text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN normalize(lower(normalize(regexp_replace(body, '\s+', ' ', 'g'), NFC)), NFC);

-- Two look alike when this is equal: full-width and other dressed-up letters, accents, invisible characters, Cyrillic,
-- Greek and Armenian letters, 0 for o, 1 or i for l, rn for m, vv for w, and what separates words do not count. Letters
-- of those alphabets that look like none of ours get one all the same: pg_trgm may see no others (database locale C).
-- The two columns are read line by line: each character on the left counts as the one on the right.
CREATE FUNCTION knowledge_fold_lookalikes(body text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN btrim(regexp_replace(replace(replace(replace(replace(replace(
    translate(
        lower(translate(
            regexp_replace(
                normalize(body, NFKD),
                '[\u00AD\u0300-\u036F\u061C\u115F\u1160\u180B-\u180F\u1AB0-\u1AFF\u1DC0-\u1DFF'
                '\u200B-\u200F\u202A-\u202E\u2060-\u206F\u20D0-\u20FF\uFE00-\uFE0F\uFE20-\uFE2F\uFEFF]',
                '', 'g'),
            'ΗΝΥ',  -- look like another letter than in lower case
            'HNY')),
        '0øоοօσөюθ'
        '1i|!ıɩіιǀłӏƚ'
        'аαɑλ'
        'вβьъыб'
        'сϲς'
        'đðԁɖдδ'
        'еєɛεҽəэξ'
        'фφƒ'
        'ɡ'
        'ħһհнћђ'
        'јϳʝ'
        'кκ'
        'мμ'
        'пηռոŋлπ'
        'рρ'
        'ԛ'
        'гɼя'
        'ѕʂ'
        'тτŧ'
        'υцսʋи'
        'νѵ'
        'ԝωшщѡ'
        'хχж'
        'уүγчψ'
        'зʐζ',

        'ooooooooo'
        'llllllllllll'
        'aaaa'
        'bbbbbb'
        'ccc'
        'dddddd'
        'eeeeeeee'
        'fff'
        'g'
        'hhhhhh'
        'jjj'
        'kk'
        'mm'
        'nnnnnnn'
        'pp'
        'q'
        'rrr'
        'ss'
        'ttt'
        'uuuuu'
        'vv'
        'wwwww'
        'xxx'
        'yyyyy'
        'zzz'),
    'rn', 'm'), 'vv', 'w'), 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'),
    '[^[:alnum:]\u0080-\U0010FFFF]+|[\u2010-\u2015\u2018-\u201F\u3002]+', ' ', 'g'));

-- A person's name in the order in which it is spoken ("Doe, Jane" is "Jane Doe").
CREATE FUNCTION knowledge_spoken_name(name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN regexp_replace(btrim(name, E' \t\r\n"''“”'), '^([^,]+),\s*([^,]+)$', '\2 \1');

-- What names and addresses are compared by; a name has no domain.
CREATE TYPE knowledge_compared AS (plain text, folded text, plain_domain text, folded_domain text);

CREATE FUNCTION knowledge_compare(field text, stored text) RETURNS knowledge_compared
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE field WHEN 'address' THEN (
    SELECT (knowledge_same_text(part[1]),
            knowledge_fold_lookalikes(regexp_replace(part[1], '(?<=.)[+＋].*$', '')),  -- jane+lists is jane
            knowledge_same_text(knowledge_read_domain(part[2])),
            knowledge_fold_lookalikes(knowledge_read_domain(translate(normalize(part[2], NFKC), '。', '.'))))
           ::knowledge_compared
    FROM (SELECT regexp_match(stored, '^(.*)[@＠﹫]([^@＠﹫]*)$')) AS split (part)
) ELSE (
    knowledge_same_text(knowledge_spoken_name(stored)),
    knowledge_fold_lookalikes(knowledge_spoken_name(stored)), '', '')::knowledge_compared
END;

-- The addresses in a text, as far as its first 20,000 characters.
CREATE FUNCTION knowledge_addresses_in(body text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 2 AS $$
    SELECT address
    FROM regexp_matches(
             left(body, 20000),
             '[^\s<>()\[\]{}"“”„‘’`,;:@\\/#?=&|]+@(?:[^\s<>()\[\]{}"“”„‘’`'',;:@\\/#?=&|._]+\.)+[^\s<>()\[\]{}"“”„‘’`'',;:@\\/#?=&|._!*%$]{2,}',
             'g') AS found (parts),
         btrim(parts[1], '''.') AS address
    WHERE body LIKE '%@%' AND length(address) <= 320
$$;

-- What a document says of people, each once and two hundred at most: the names and addresses that are its own (from its
-- metadata and id), and the addresses that its content mentions. docs/guides/people.md lists the members of metadata.
CREATE FUNCTION knowledge_people_of(id text, content text, metadata jsonb)
RETURNS TABLE (field text, own boolean, stored text, plain text, folded text, plain_domain text, folded_domain text)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 4 AS $$
    WITH said AS (
        SELECT lower(replace(key, '_', '')) AS key, part #>> '{}' AS value
        FROM jsonb_each(metadata) AS member,
             jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE jsonb_build_array(value) END)
                 AS part
        WHERE jsonb_typeof(part) = 'string'
    ), names AS (
        SELECT btrim(value) AS stored
        FROM said
        WHERE key IN ('name', 'names', 'displayname', 'fullname', 'cn', 'alias', 'aliases')
          AND length(value) <= 200 AND value NOT LIKE '%@%'
    ), own_addresses AS (
        SELECT address AS stored
        FROM said, knowledge_addresses_in(value) AS address
        WHERE key IN ('email', 'emails', 'mail', 'mails', 'address', 'addresses', 'alias', 'aliases',
                      'proxyaddresses', 'userprincipalname')
        UNION
        SELECT knowledge_addresses_in(id)
    ), people AS (
        SELECT 'name' AS field, true AS own, stored FROM names
        UNION
        SELECT 'address', true, stored FROM own_addresses
        UNION
        SELECT 'address', false, address
        FROM knowledge_addresses_in(content) AS address
        WHERE address NOT IN (SELECT stored FROM own_addresses)
        ORDER BY own DESC, field, stored
        LIMIT 200
    )
    SELECT field, own, stored, (compared).plain, (compared).folded, (compared).plain_domain, (compared).folded_domain
    FROM (SELECT people.*, knowledge_compare(field, stored) AS compared FROM people OFFSET 0) AS compared
    WHERE (compared).folded <> ''
$$;

-- Beside the documents and not in them: a document has many, and writing them anew writes no vector.
CREATE TABLE knowledge_document_people (
    document_id   text COLLATE "C" NOT NULL,
    field         text COLLATE "C" NOT NULL CHECK (field IN ('address', 'name')),
    own           boolean NOT NULL,           -- the document is about this one, and does not merely mention it
    stored        text COLLATE "C" NOT NULL,  -- as the document has it
    plain         text COLLATE "C" NOT NULL,  -- of the name or local part; equal: the same
    folded        text COLLATE "C" NOT NULL,  -- of the name or local part; equal: looks the same
    plain_domain  text COLLATE "C" NOT NULL,
    folded_domain text COLLATE "C" NOT NULL,
    PRIMARY KEY (document_id, field, own, stored)
);

-- The people of documents that are there already.
INSERT INTO knowledge_document_people
SELECT id, people.* FROM knowledge_documents, LATERAL knowledge_people_of(id, content, metadata) AS people;

CREATE INDEX knowledge_document_people_folded ON knowledge_document_people (field, folded, document_id);
CREATE INDEX knowledge_document_people_domain ON knowledge_document_people (folded_domain, plain_domain, document_id)
    WHERE field = 'address' AND own;
CREATE INDEX knowledge_document_people_near_address ON knowledge_document_people
    USING gin (folded gin_trgm_ops) WITH (fastupdate = off) WHERE field = 'address';
CREATE INDEX knowledge_document_people_near_name ON knowledge_document_people
    USING gin (folded gin_trgm_ops) WITH (fastupdate = off) WHERE field = 'name';

-- After each statement that writes documents: their people follow in the same transaction. Equal row hashes tell that
-- there is nothing to do, and a name or address that stays is not written again.
CREATE FUNCTION knowledge_follow_people() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO knowledge_document_people
        SELECT id, people.* FROM written, LATERAL knowledge_people_of(id, content, metadata) AS people;
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM knowledge_document_people USING gone WHERE document_id = gone.id;
    ELSE
        WITH changed AS (
            SELECT written.id, written.content, written.metadata
            FROM written JOIN gone USING (id)
            WHERE written.row_hash <> gone.row_hash
        ), told AS MATERIALIZED (
            SELECT changed.id AS document_id, people.*
            FROM changed, LATERAL knowledge_people_of(id, content, metadata) AS people
        ), forgotten AS (
            DELETE FROM knowledge_document_people AS kept
            USING changed
            WHERE kept.document_id = changed.id
              AND NOT EXISTS (SELECT FROM told
                              WHERE (told.document_id, told.field, told.own, told.stored)
                                    = (kept.document_id, kept.field, kept.own, kept.stored))
        )
        INSERT INTO knowledge_document_people SELECT * FROM told ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER people_of_written AFTER INSERT ON knowledge_documents
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_people();
CREATE TRIGGER people_of_rewritten AFTER UPDATE ON knowledge_documents
    REFERENCING OLD TABLE AS gone NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_people();
CREATE TRIGGER people_of_gone AFTER DELETE ON knowledge_documents
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION knowledge_follow_people();
