"""The lexical leg: BM25 as a library reckons it, whatever was written, removed or expired before."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import bm25s
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.types.json import Jsonb

from functions.ttl_cleanup.app import handler as clean_up_handler
from knowledge import wiring
from knowledge.db.connection import Database
from knowledge.db.migrate import MIGRATIONS, migrate
from knowledge.documents import words
from knowledge.documents.fingerprint import searchable_text
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from knowledge.documents.words import ByWords, WordIndex, rank_by_words
from knowledge.embedding.hashing import HashEmbedder
from knowledge.search import bm25
from knowledge.settings import SettingsError
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.tag_expression import parse


class EndlessContext:
    aws_request_id = "clean-up"

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


VOCABULARY = [f"word{n}" for n in range(60)]
COMMON_FIRST = [1 / (n + 1) for n in range(60)]


def sentence(random: random.Random, length: int) -> str:
    return " ".join(random.choices(VOCABULARY, COMMON_FIRST, k=length))


@pytest.fixture
def by_words(database: Database) -> Callable[..., ByWords]:
    def rank(text: str, tags: str | None = None, limit: int = 100, also: tuple[str, ...] = ()) -> ByWords:
        return database.run(lambda transaction: rank_by_words(transaction, text, parse(tags), limit, also))

    return rank


def put(ingestion: Ingestion, **texts: str) -> None:
    ingestion.upsert([KnowledgeDocument(id=id_, content=text) for id_, text in texts.items()])


def as_the_library_reckons(database: Database, question: str) -> dict[str, float]:
    """Scores by bm25s over the words of the live documents, as shares of the question's weight."""
    rows = database.run(
        lambda t: t.execute(
            """SELECT id, array_agg(lexeme) FILTER (WHERE lexeme IS NOT NULL) AS words
               FROM knowledge_documents
               LEFT JOIN LATERAL (
                   SELECT lexeme FROM unnest(to_tsvector('english', content)) AS word, unnest(positions) AS place
               ) AS word ON true
               WHERE expires_at IS NULL OR expires_at > now() GROUP BY id"""
        ).fetchall()
    )
    asked = database.run(
        lambda t: t.execute(
            "SELECT lexeme FROM unnest(to_tsvector('english', %s)) AS word, unnest(positions) AS place", (question,)
        ).fetchall()
    )
    texts = [row["words"] or [] for row in rows]
    words = sorted({word for text in texts for word in text})
    number = {word: n for n, word in enumerate(words)}
    library = bm25s.BM25(method="lucene", k1=bm25.K1, b=bm25.B)
    library.index(([[number[word] for word in text] for text in texts], number), show_progress=False)
    tokens = [row["lexeme"] for row in asked]
    known = [word for word in tokens if word in number]
    scores = library.get_scores(known) if known else [0.0] * len(rows)
    holding = {word: sum(word in text for text in texts) for word in tokens}
    weight = sum(bm25.idf(holding[word], len(texts)) for word in tokens)
    return {row["id"]: float(score) / weight for row, score in zip(rows, scores, strict=True) if score > 0}


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_the_librarys_whatever_was_written_before(
    ingestion: Ingestion,
    store: DocumentStore,
    database: Database,
    by_words: Callable[..., ByWords],
    seed: int,
) -> None:
    dice = random.Random(seed)
    moments = [None, datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) - timedelta(seconds=1)]
    for step in range(6):
        ingestion.upsert(
            [
                KnowledgeDocument(
                    id=f"d{n}", content=sentence(dice, dice.randint(1, 60)), expires_at=dice.choice(moments)
                )
                for n in dice.sample(range(90), 40)
            ]
        )
        store.delete([f"d{n}" for n in dice.sample(range(90), 5)])
        if step == 2:
            WordIndex(database).fold()
        if step == 4:
            store.delete_expired(3)
        for question in ("word0 word7 word40 and word40", sentence(dice, 9), "word59"):
            expected = as_the_library_reckons(database, question)
            found = by_words(question).scores
            assert found.keys() == expected.keys()
            assert found == pytest.approx(expected, abs=1e-6)


def test_what_is_written_around_the_store_is_counted_as_well(database: Database, ingestion: Ingestion) -> None:
    put(ingestion, a="alpha beta", b="alpha")
    database.run(lambda t: t.execute("UPDATE knowledge_documents SET source = 'other', stored_at = now()"))
    database.run(lambda t: t.execute("DELETE FROM knowledge_documents WHERE id = 'b'"))
    WordIndex(database).fold()
    counts = database.run(
        lambda t: t.execute("SELECT word, documents, occurrences FROM knowledge_word_totals ORDER BY word").fetchall()
    )
    assert [tuple(row.values()) for row in counts if row["documents"]] == [("", 1, 2), ("alpha", 1, 1), ("beta", 1, 1)]


def test_writers_of_the_same_words_do_not_wait_for_each_other(database_url: str, ingestion: Ingestion) -> None:
    put(ingestion, a="common words", b="common words")
    with psycopg.connect(database_url) as one, psycopg.connect(database_url) as other:
        other.execute("SET lock_timeout = '2s'")
        for connection, id_ in ((one, "a"), (other, "b")):
            connection.execute(
                "UPDATE knowledge_documents SET content = 'common words again', content_hash = 'x' WHERE id = %s",
                (id_,),
            )


def test_a_fold_in_the_middle_of_anothers_leaves_the_counts_to_it(
    database_url: str, database: Database, ingestion: Ingestion
) -> None:
    put(ingestion, a="alpha")
    with psycopg.connect(database_url) as other:
        other.execute("SELECT knowledge_fold_word_changes()")
        assert WordIndex(database).fold() == 0
    assert WordIndex(database).fold() == 0, "the other one has done it"


def test_the_tag_filter_and_further_documents(ingestion: Ingestion, by_words: Callable[..., ByWords]) -> None:
    ingestion.upsert(
        [
            KnowledgeDocument(id="a", content="alpha beta", tags=["x"]),
            KnowledgeDocument(id="b", content="alpha", tags=["y"]),
            KnowledgeDocument(id="c", content="gamma", tags=["x"]),
        ]
    )
    assert list(by_words("alpha beta").scores) == ["a", "b"]
    assert list(by_words("alpha", "x").scores) == ["a"]
    assert list(by_words("alpha", "x|y").scores) == ["b", "a"]
    ranked = by_words("alpha beta", limit=1, also=("a", "b", "c", "nobody"))
    assert (list(ranked.scores), list(ranked.further)) == (["a"], ["b"])
    assert ranked.further["b"] == by_words("alpha beta").scores["b"]


def test_a_broad_tag_filter_is_applied_to_rows_with_the_same_answer(
    ingestion: Ingestion, by_words: Callable[..., ByWords], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(3)
    ingestion.upsert(
        [KnowledgeDocument(id=f"d{n}", content=sentence(dice, 12), tags=["half"] if n % 2 else []) for n in range(60)]
    )
    answers: list[ByWords] = []
    for broad in (False, True):
        monkeypatch.setattr(words, "is_broad", lambda *_, broad=broad: broad)
        answers.append(by_words("word1 word2 word30", "half"))
    assert answers[0].scores
    assert answers[0] == answers[1]
    assert all(int(id_[1:]) % 2 for id_ in answers[1].scores)


def test_half_of_many_documents_is_broad_and_a_tenth_is_not() -> None:
    assert words.is_broad(50_000, 100_000)
    assert not words.is_broad(10_000, 100_000)
    assert not words.is_broad(500, 1_000)


def test_many_that_expired_are_taken_off_by_their_share(
    ingestion: Ingestion, by_words: Callable[..., ByWords], monkeypatch: pytest.MonkeyPatch
) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    dice = random.Random(4)
    texts = [sentence(dice, 12) for _ in range(40)]
    ingestion.upsert([KnowledgeDocument(id=f"d{n}", content=text) for n, text in enumerate(texts)])
    question = "word0 word3 word30"
    alone = by_words(question)
    ingestion.upsert([KnowledgeDocument(id=f"old{n}", content=t, expires_at=past) for n, t in enumerate(texts)])
    monkeypatch.setattr(words, "FEW_EXPIRED", 39)
    assert by_words(question) == alone, "each text is there once more, expired: half of each count is right"
    ingestion.upsert([KnowledgeDocument(id="rare", content="zebra")])
    assert list(by_words("zebra").scores) == ["rare"], "what one live document holds is not rounded away"


def test_changed_tags_and_expiry_are_followed(ingestion: Ingestion, by_words: Callable[..., ByWords]) -> None:
    put(ingestion, a="alpha")
    ingestion.upsert([KnowledgeDocument(id="a", content="alpha", tags=["x"])])
    assert list(by_words("alpha", "x").scores) == ["a"]
    ingestion.upsert([KnowledgeDocument(id="a", content="alpha", expires_at=datetime.now(UTC) - timedelta(seconds=1))])
    assert not by_words("alpha").scores


@pytest.mark.parametrize("question", ["the of and", "unheard", "!?", "'; \\ '' & | ! <-> :*"])
def test_questions_without_known_words_find_nothing(
    ingestion: Ingestion, by_words: Callable[..., ByWords], question: str
) -> None:
    put(ingestion, a="alpha")
    assert not by_words(question).scores


@pytest.mark.parametrize("word", ["o'neil", "https://example.test/a\\b?c='d'", "vera@example.test", "naïve", "日本語"])
def test_words_of_any_kind_find_what_has_them(
    ingestion: Ingestion, by_words: Callable[..., ByWords], word: str
) -> None:
    put(ingestion, a=f"here stands {word} in a text", b="something else")
    assert list(by_words(word).scores) == ["a"]


def test_an_empty_store_has_no_words(by_words: Callable[..., ByWords]) -> None:
    assert by_words("alpha") == ByWords({}, {}, "no_words", 0)


@pytest.mark.parametrize(
    "content",
    [
        " ".join(f"w{n}" for n in range(150_000))[:1_000_000],
        "word " * 200_000,
        " ".join(chr(0x10400 + n % 40) + chr(0x20000 + n) * 3 for n in range(150_000))[:1_000_000],
        "x" * 1_000_000,
        " ".join(f"a{n}-b{n}-c{n}.example.test/p{n}?q={n}" for n in range(30_000))[:1_000_000],
    ],
    ids=["many words", "one word", "wide letters", "no blanks", "addresses"],
)
def test_overlong_documents_are_stored_and_found_by_their_beginning(
    ingestion: Ingestion, by_words: Callable[..., ByWords], content: str
) -> None:
    put(ingestion, long=f"alpha {content}"[:1_000_000], short="alpha")
    assert set(by_words("alpha").scores) == {"long", "short"}


def test_a_words_frequency_is_read_off_ts_rank(database: Database) -> None:
    """With norm 1 and weight 1 the score is tf / (tf + 1)."""
    score = bm25.score_expression([bm25.Word("alpha", 0.5, 1.0)])
    statement = sql.SQL(
        "SELECT tf, {score} AS score"
        " FROM (SELECT tf, to_tsvector(repeat('alpha beta ', tf)) AS lexemes, 1.0::float8 AS norm"
        " FROM generate_series(0, 255) AS tf) AS text"
    ).format(score=sql.SQL(score.expression))
    rows = database.run(lambda t: t.execute(statement, score.parameters).fetchall())
    assert len(rows) == 256
    assert [row["score"] for row in rows] == pytest.approx([row["tf"] / (row["tf"] + 1) for row in rows], abs=1e-9)


def test_fewer_candidates_give_the_first_ten_and_short_answers_are_filled(
    ingestion: Ingestion, by_words: Callable[..., ByWords], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(1)
    ingestion.upsert([KnowledgeDocument(id=f"d{n}", content=sentence(dice, 12)) for n in range(400)])
    question = "word1 word2 word3 word30 word31"
    every = by_words(question, limit=400)
    monkeypatch.setattr(bm25.candidates, "__defaults__", (40,))
    few = by_words(question, limit=10)
    assert few.plan == "candidates"
    assert len(few.scores) == 10
    assert len(set(few.scores) & set(list(every.scores)[:10])) >= 9
    assert few.scores.items() <= every.scores.items(), "what is found scores the same"
    filled = by_words(question, limit=400)
    assert filled.plan == "candidates_then_all"
    assert filled.scores == every.scores


def test_a_statement_reads_the_index_of_words(database: Database, ingestion: Ingestion) -> None:
    dice = random.Random(1)
    ingestion.upsert([KnowledgeDocument(id=f"d{n}", content=sentence(dice, 12)) for n in range(800)])

    def explain(transaction: psycopg.Cursor[dict[str, object]]) -> str:
        transaction.execute("ANALYZE knowledge_document_words")
        transaction.execute("SET LOCAL enable_seqscan = off")
        rows = transaction.execute(
            "EXPLAIN SELECT id FROM knowledge_document_words WHERE lexemes @@ '''word59'''::tsquery"
        )
        return str(rows.fetchall())

    assert "knowledge_document_words_lexemes" in database.run(explain)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    title=st.none() | st.integers(-(2**63), 2**63 - 1) | st.text("ab \t>", max_size=4),
    path=st.none()
    | st.text("ab")
    | st.lists(st.integers(-(2**63), 2**63 - 1) | st.text("ab \n", max_size=3), max_size=4),
)
def test_the_text_with_words_is_the_text_that_is_embedded_with_its_headings_twice(
    database: Database, content: str, title: object, path: object
) -> None:
    metadata = {"title": title, "heading_path": path}
    row = database.run(
        lambda t: t.execute("SELECT knowledge_searchable_text(%s, %s) AS text", (content, Jsonb(metadata))).fetchone()
    )
    embedded = searchable_text(KnowledgeDocument(id="x", content=content, metadata=metadata))
    assert row == {"text": embedded.removesuffix(content) + embedded}


def test_another_language_takes_words_differently(
    ingestion: Ingestion, database: Database, by_words: Callable[..., ByWords]
) -> None:
    put(ingestion, a="the running payments")
    index = WordIndex(database)
    assert (index.language(), list(by_words("payment").scores), list(by_words("the").scores)) == ("english", ["a"], [])
    assert index.use_language("simple")
    assert not index.use_language("simple")
    assert (index.language(), list(by_words("payment").scores), list(by_words("the").scores)) == ("simple", [], ["a"])
    assert by_words("the").scores == pytest.approx({"a": 1 / (1 + bm25.K1)}), "the counts are of the new words"


def test_documents_from_before_the_words_get_them(
    bare_database_url: str, embedder: HashEmbedder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = tmp_path_factory.mktemp("migrations")
    for path in sorted(MIGRATIONS.glob("*.sql"))[:3]:
        (before / path.name).write_text(path.read_text())
    migrate(bare_database_url, embedder.model, folder=before)
    with psycopg.connect(bare_database_url) as connection:
        connection.execute(
            """INSERT INTO knowledge_documents (id, content, tags, metadata, content_hash, row_hash, embedding)
               SELECT 'd' || n, 'old text', '{x}', '{"title": "Payments"}', '', '', array_fill(0.05, '{384}')::vector
               FROM generate_series(1, 5) AS n"""
        )
    assert "0004_lexical" in migrate(bare_database_url, embedder.model)
    database = Database(lambda: bare_database_url)
    found = database.run(lambda transaction: rank_by_words(transaction, "payment", parse("x"), 10))
    database.close()
    assert sorted(found.scores) == [f"d{n}" for n in range(1, 6)]


def test_documents_from_before_get_the_words_of_their_headings_twice(
    bare_database_url: str, embedder: HashEmbedder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = tmp_path_factory.mktemp("migrations")
    for path in sorted(MIGRATIONS.glob("*.sql"))[:8]:
        (before / path.name).write_text(path.read_text())
    migrate(bare_database_url, embedder.model, folder=before)
    with psycopg.connect(bare_database_url) as connection:
        connection.execute(
            """INSERT INTO knowledge_documents (id, content, tags, metadata, content_hash, row_hash, embedding)
               VALUES ('titled', 'old text', '{}', '{"title": "Payments"}', '', '', array_fill(0.05, '{384}')::vector),
                      ('plain', 'old text', '{}', '{}', '', '', array_fill(0.05, '{384}')::vector)"""
        )
    assert "0009_headings_twice" in migrate(bare_database_url, embedder.model)
    with psycopg.connect(bare_database_url) as connection:
        rows = connection.execute("SELECT id, lexemes::text, length FROM knowledge_document_words ORDER BY id")
        assert rows.fetchall() == [("plain", "'old':1 'text':2", 2), ("titled", "'old':3 'payment':1,2 'text':4", 4)]
        totals = connection.execute(
            "SELECT word, documents, occurrences FROM knowledge_word_totals WHERE word IN ('', 'payment') ORDER BY word"
        )
        assert totals.fetchall() == [("", 2, 6), ("payment", 1, 2)]


def test_migrating_takes_words_as_the_environment_says_and_clean_up_folds(
    database_url: str, database: Database, ingestion: Ingestion, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"DATABASE_URL": database_url, "EMBEDDING_BACKEND": "hash", "SEARCH_LANGUAGE": "german"}.items():
        monkeypatch.setenv(name, value)
    wiring.reset()
    wiring.migrate()
    assert WordIndex(database).language() == "german"
    monkeypatch.setenv("SEARCH_LANGUAGE", "no such; language")
    with pytest.raises(SettingsError, match="SEARCH_LANGUAGE"):
        wiring.migrate()
    put(ingestion, a="alpha beta")
    assert clean_up_handler({}, EndlessContext())["deleted"] == 0  # type: ignore[arg-type]
    wiring.reset()
    left = database.run(lambda t: t.execute("SELECT count(*) AS n FROM knowledge_word_changes").fetchone())
    assert left == {"n": 0}


def test_many_changes_fold_by_themselves(
    database: Database, by_words: Callable[..., ByWords], ingestion: Ingestion
) -> None:
    put(ingestion, a="alpha")
    database.run(
        lambda t: t.execute(
            """INSERT INTO knowledge_word_changes (collection, word, documents, occurrences)
               SELECT 'elsewhere', 'w', 1, 1 FROM generate_series(1, 200001)"""
        )
    )
    put(ingestion, b="alpha beta")
    left = database.run(lambda t: t.execute("SELECT count(*) AS n FROM knowledge_word_changes").fetchone())
    assert left is not None
    assert left["n"] < 10
    assert list(by_words("alpha").scores) == ["a", "b"]


def test_bookkeeping_of_a_document_touches_no_words(database_url: str, ingestion: Ingestion) -> None:
    put(ingestion, a="alpha")
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = connection.execute("SELECT xmin::text, ctid::text FROM knowledge_document_words").fetchall()
        connection.execute("UPDATE knowledge_documents SET stored_at = now(), metadata = '{\"seen\": 1}'")
        connection.execute("SELECT pg_stat_force_next_flush()")
        hot = connection.execute(
            "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'knowledge_documents'"
        ).fetchone()
        assert connection.execute("SELECT xmin::text, ctid::text FROM knowledge_document_words").fetchall() == before
    assert hot == (1,)
