"""Search and ask: two legs, one sum, within the scope and without a trace."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import psycopg
import pytest

from knowledge.db.connection import Database
from knowledge.embedding.hashing import HashEmbedder
from knowledge.items import embeddings as embeddings_module
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import TIERS
from knowledge.items.search import Hit, Narrowing
from knowledge.items.session import AgentClass, Session
from spot_sdk.errors import InvalidRequest, ModelMismatch
from tests.postgres.items.conftest import HOME, OWNER, WORK_ONLY, draft

EVERYWHERE = ["home", "work", "ledger"]


def titles(hits: list[Hit]) -> list[str]:
    return [hit.title for hit in hits]


def put(layer: KnowledgeLayer, title: str, text: str = "a body", **fields: Any) -> str:
    return layer.store.store(draft(title, body={"text": text}, **fields), OWNER).id


def test_both_leg_scores_are_on_each_result_and_their_sum_ranks(layer: KnowledgeLayer) -> None:
    put(layer, "Passport", "Renew the passport before June.")
    put(layer, "Photosynthesis", "Plants turn light into sugar.")
    put(layer, "Piano", "The tuner comes in spring.")

    passport, *others = layer.search.search("renewing passports", EVERYWHERE, OWNER)

    assert passport.title == "Passport"
    assert passport.lexical_score > 0
    assert passport.semantic_score == pytest.approx(
        similarity("renewing passports", "Passport\nRenew the passport before June."), abs=1e-6
    )
    assert passport.score == passport.lexical_score + passport.semantic_score
    assert all(other.score < passport.score for other in others)


def test_each_leg_finds_alone(layer: KnowledgeLayer) -> None:
    put(layer, "Photosynthesis", "In leaves.")
    put(
        layer,
        "Notes",
        "Copper kettles hang above stoves while brown dogs guard muddy fields; merchants sell fur, jam, oak beams, "
        "silk ribbons, clay pots, brass locks, goose quills, wax, tin, hemp rope, and altogether too much vinegar.",
    )

    [by_parts] = layer.search.search("photosynthetic", EVERYWHERE, OWNER)
    assert by_parts.title == "Photosynthesis"
    assert by_parts.lexical_score == 0 < by_parts.semantic_score

    [by_word] = layer.search.search("altogether unlikely documentaries", EVERYWHERE, OWNER)
    assert by_word.title == "Notes"
    assert by_word.lexical_score > 0 == by_word.semantic_score


def test_below_the_floor_a_likeness_is_none(layer: KnowledgeLayer) -> None:
    put(layer, "Photosynthesis", "Plants turn light into sugar.")
    assert abs(similarity("dentist appointment", "Photosynthesis\nPlants turn light into sugar.")) < 0.1
    assert layer.search.search("dentist appointment", EVERYWHERE, OWNER) == []


def test_every_tier_is_searched_alike_and_told(layer: KnowledgeLayer) -> None:
    for tier in TIERS:
        put(layer, "Passport", "Renew the passport.", tier=tier)

    hits = layer.search.search("passport", EVERYWHERE, OWNER)

    assert sorted(hit.tier for hit in hits) == sorted(TIERS)
    assert len({(hit.lexical_score, hit.semantic_score) for hit in hits}) == 1
    assert [hit.id for hit in hits] == sorted(hit.id for hit in hits)


@pytest.mark.parametrize("scope", [[], (), "", "home"])
def test_a_scope_is_a_list_that_is_not_empty(layer: KnowledgeLayer, scope: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        layer.search.search("passport", scope, OWNER)
    assert refused.value.problems[0].field == "scope"
    with pytest.raises(InvalidRequest):
        layer.search.ask("passport", Narrowing(), scope, OWNER)


def test_no_result_crosses_the_scope_on_either_leg_or_in_the_filters(layer: KnowledgeLayer) -> None:
    moment = datetime(2027, 3, 3, tzinfo=UTC)
    for compartment in ("home", "work", "divorce"):
        put(layer, f"Passport {compartment}", compartment=compartment, type="commitment", domain_at=moment.isoformat())
    narrowing = Narrowing.due_this_week(moment.date())

    for scope, session in ((["work"], OWNER), (["work"], WORK_ONLY), (["work", "home", "divorce"], WORK_ONLY)):
        assert titles(layer.search.search("passport", scope, session)) == ["Passport work"]
        assert titles(layer.search.search("passportish", scope, session)) == ["Passport work"]
        assert titles(layer.search.ask(None, narrowing, scope, session)) == ["Passport work"]
    assert layer.search.search("passport", ["home", "divorce"], WORK_ONLY) == []
    assert layer.search.search("passport", ["nowhere"], OWNER) == []


def test_the_scope_comes_before_the_ranking(layer: KnowledgeLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is out of the scope takes no place in a leg, however well it fits."""
    monkeypatch.setattr("knowledge.items.search._REACH", 3)
    for number in range(12):
        put(layer, f"Passport passport {number}", "passport", compartment="home")
    put(layer, "A letter", "It mentions a passport somewhere among many other things.", compartment="work")

    assert titles(layer.search.search("passport", ["work"], OWNER)) == ["A letter"]
    assert titles(layer.search.search("passportish", ["work"], WORK_ONLY)) == ["A letter"]


def test_searching_and_indexing_are_no_access(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    item_id = put(layer, "Passport")

    assert layer.search.search("passport", EVERYWHERE, OWNER)[0].semantic_score > 0  # indexed meanwhile
    layer.search.ask("passport", Narrowing(types=["fact"]), EVERYWHERE, OWNER)

    assert superuser.execute("SELECT count(*) FROM knowledge_layer.access_events").fetchone() == (0,)
    [item] = layer.store.look([item_id], OWNER)
    assert item.last_accessed_at is None
    assert [event.event for event in layer.provenance.events(OWNER, item_id=item_id)] == ["created"]


def test_an_update_is_found_by_what_it_says_now(layer: KnowledgeLayer) -> None:
    item_id = put(layer, "Passport", "Renew it.")
    layer.search.search("passport", EVERYWHERE, OWNER)
    layer.store.store(draft("Piano tuning", id=item_id, body={"text": "In spring."}), OWNER)

    assert layer.search.search("passports", EVERYWHERE, OWNER) == []
    assert titles(layer.search.search("pianos", EVERYWHERE, OWNER)) == ["Piano tuning"]


def test_only_what_is_in_scope_is_indexed(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    put(layer, "Passport", compartment="home")
    put(layer, "Ledger", compartment="work")
    layer.search.search("anything", ["home", "work"], WORK_ONLY)
    assert superuser.execute("SELECT count(*) FROM knowledge_layer.item_embeddings").fetchone() == (1,)
    assert superuser.execute("SELECT count(*) FROM knowledge_layer.items_to_embed").fetchone() == (1,)


def test_a_deleted_item_is_not_waiting_to_be_indexed(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    item_id = put(layer, "Passport")
    layer.deletion.erase(item_id, OWNER)
    assert superuser.execute("SELECT count(*) FROM knowledge_layer.items_to_embed").fetchone() == (0,)
    assert layer.search.search("passport", EVERYWHERE, OWNER) == []


def test_an_item_that_changes_while_it_is_embedded_is_embedded_again(
    layer: KnowledgeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    item_id = put(layer, "Passport")
    embed = embeddings_module.embed

    def embed_while_it_changes(*arguments: Any) -> Any:
        monkeypatch.setattr(embeddings_module, "embed", embed)
        layer.store.store(draft("Piano tuning", id=item_id), OWNER)
        return embed(*arguments)

    monkeypatch.setattr(embeddings_module, "embed", embed_while_it_changes)
    [hit] = layer.search.search("piano tuner", EVERYWHERE, OWNER)
    assert hit.semantic_score == pytest.approx(similarity("piano tuner", "Piano tuning\na body"), abs=1e-6)


def test_only_the_current_models_vectors_are_read(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    item_id = put(layer, "Passport")
    layer.search.search("passport", EVERYWHERE, OWNER)
    planted = str(HashEmbedder().embed("dentist appointment"))
    for model, version in (("kl-hash-embed", "0"), ("another", "1")):
        superuser.execute(
            "INSERT INTO knowledge_layer.item_embeddings VALUES (%s, 0, %s, %s, 1, %s)",
            (item_id, model, version, planted),
        )
    assert layer.search.search("dentist appointment", EVERYWHERE, OWNER) == []


def test_a_model_that_this_code_does_not_make_is_said_and_not_swapped(
    layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    put(layer, "Passport")
    superuser.execute("UPDATE knowledge_layer.item_models SET version = '2'")
    with pytest.raises(ModelMismatch, match=r"kl-hash-embed 2 .*knowledge items reembed"):
        layer.search.search("passport", EVERYWHERE, OWNER)


def test_a_long_item_is_found_by_any_of_its_parts_and_shows_it(layer: KnowledgeLayer) -> None:
    filler = "The weather was fair and nothing of note happened on that day.\n\n" * 40
    put(layer, "Diary", f"{filler}The violin teacher charges ninety an hour.\n\n{filler}")
    put(layer, "Weather", "Fair.")

    best = layer.search.search("violin teacher fee an hour", EVERYWHERE, OWNER)[0]

    assert best.title == "Diary"
    assert similarity("violin teacher fee an hour", f"Diary\n{filler}") < 0.1 < best.semantic_score
    assert "violin teacher charges ninety" in best.passage
    assert len(best.passage) <= 500


def test_ask_narrows_by_type_tier_and_domain_time(layer: KnowledgeLayer) -> None:
    march, april = datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 4, 1, tzinfo=UTC)
    put(layer, "Roof done", type="project", domain_at="2027-03-31T23:59:59Z")
    put(layer, "Roof leak", type="episode", domain_at="2027-03-01T00:00:00Z", tier="archive")
    put(layer, "Roof paint", type="project", domain_at="2027-04-01T00:00:00Z")
    put(layer, "Roof bill", type="commitment", domain_at="2027-03-10T00:00:00Z")
    put(layer, "Roof idea", type="project")

    def ask(narrowing: Narrowing, question: str | None = "roof") -> set[str]:
        return set(titles(layer.search.ask(question, narrowing, EVERYWHERE, OWNER)))

    assert ask(Narrowing(types=["project"])) == {"Roof done", "Roof paint", "Roof idea"}
    assert ask(Narrowing(tiers=["archive"])) == {"Roof leak"}
    assert ask(Narrowing(start=march, end=april)) == {"Roof done", "Roof leak", "Roof bill"}
    assert ask(Narrowing(start=april)) == {"Roof paint"}
    assert ask(Narrowing(types=["project"]), "dentist") == set()
    assert ask(Narrowing.completed_in_range(march, april), "dentist") == {"Roof done", "Roof leak"}


def test_a_shape_without_a_question_is_in_the_order_of_domain_times(layer: KnowledgeLayer) -> None:
    put(layer, "Tax", type="commitment", domain_at="2027-03-07T23:59:59Z")
    put(layer, "Dentist", type="episode", domain_at="2027-03-01T00:00:00Z")
    put(layer, "Cold", type="commitment", domain_at="2027-03-03T00:00:00Z", tier="short-term")
    put(layer, "Next week", type="commitment", domain_at="2027-03-08T00:00:00Z")
    put(layer, "A fact", domain_at="2027-03-03T00:00:00Z")
    shape = Narrowing.due_this_week(date(2027, 3, 4))

    assert titles(layer.search.ask(None, shape, EVERYWHERE, OWNER)) == ["Dentist", "Tax"]
    assert titles(layer.search.ask("tax", shape, EVERYWHERE, OWNER)) == ["Tax", "Dentist"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"types": ["dream"]}, "types"),
        ({"types": []}, "types"),
        ({"tiers": ["hot"]}, "tiers"),
        ({"start": datetime(2027, 1, 1)}, "start"),  # noqa: DTZ001 - that is what is refused
        ({"start": datetime(2027, 1, 2, tzinfo=UTC), "end": datetime(2027, 1, 2, tzinfo=UTC)}, "end"),
    ],
)
def test_a_narrowing_that_cannot_be_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Narrowing(**fields)
    assert refused.value.problems[0].field == named


@pytest.mark.parametrize("question", ["", " ", "x" * 4001, "a\0b", "\ud800"])
def test_a_question_that_cannot_be_is_refused_and_the_session_goes_on(layer: KnowledgeLayer, question: str) -> None:
    put(layer, "Passport")
    with pytest.raises(InvalidRequest):
        layer.search.search(question, EVERYWHERE, OWNER)
    with pytest.raises(InvalidRequest):
        layer.search.ask(None, Narrowing(), EVERYWHERE, OWNER)
    with pytest.raises(InvalidRequest):
        layer.search.search("passport", EVERYWHERE, OWNER, limit=51)
    assert titles(layer.search.search("passport", EVERYWHERE, OWNER)) == ["Passport"]


@pytest.mark.parametrize("question", ["the", "!!", "'", "a\\'b | c & !d", "passport:*"])
def test_a_question_is_words_and_never_an_expression(layer: KnowledgeLayer, question: str) -> None:
    put(layer, "Passport")
    layer.search.search(question, EVERYWHERE, OWNER)


def test_a_session_without_the_owners_rights_searches(login: Any, layer: KnowledgeLayer) -> None:
    put(layer, "Passport")
    agent = Database(lambda: login("knowledge_layer_app"))
    try:
        found = KnowledgeLayer.on(agent).search.search("passports", EVERYWHERE, HOME)
        assert [hit.semantic_score > 0 for hit in found] == [True]
        assert KnowledgeLayer.on(agent).search.search("x", ["home"], Session("a", AgentClass.FLEET, frozenset())) == []
    finally:
        agent.close()


def similarity(one: str, other: str) -> float:
    """Of two texts, by the hash model."""
    vectors = HashEmbedder().embed(one), HashEmbedder().embed(other)
    return math.fsum(a * b for a, b in zip(*vectors, strict=True))
