"""Two agents of different classes and grants use every tool in any order, held against a model in plain Python."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from knowledge.items.layer import KnowledgeLayer
from knowledge.items.session import AgentClass, Session
from mcp_server.server import call
from mcp_server.tools import Desk, tools_for
from tests.postgres.items.conftest import OWNER

GRANTS = {"owner": {"home", "work", "divorce"}, "chief": {"work"}}
"""The agents, by class, and what each sees."""

agents = st.sampled_from(sorted(GRANTS))
compartments = st.sampled_from(["home", "work", "divorce"])
words = st.sampled_from(["apple", "boiler", "cellar", "depot"])


def test_two_agents_against_a_model(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    class Estate(RuleBasedStateMachine):
        ids = Bundle("ids")

        @initialize()
        def begin(self) -> None:
            for id_ in [row[0] for row in superuser.execute("SELECT id FROM knowledge_layer.items").fetchall()]:
                layer.deletion.erase(id_, OWNER)
            self.items: dict[str, dict[str, Any]] = {}
            self.links: set[tuple[str, str]] = set()
            self.desks = {
                name: Desk(layer, Session(f"{name}-agent", AgentClass(name), frozenset(GRANTS[name])))
                for name in GRANTS
            }

        def say(self, agent: str, tool: str, **arguments: Any) -> tuple[str, Any]:
            """The refusal's code or an empty text, and the data."""
            desk = self.desks[agent]
            result = call(tools_for(desk.session, write_enabled=False)[tool], desk, arguments)
            content = json.loads(result.content[0].text)  # type: ignore[union-attr]
            return (content["error"]["code"], None) if result.is_error else ("", content["data"])

        def sees(self, agent: str, id_: str) -> bool:
            return id_ in self.items and self.items[id_]["compartment"] in GRANTS[agent]

        @rule(target=ids, agent=agents, compartment=compartments, word=words)
        def store(self, agent: str, compartment: str, word: str) -> Any:
            fields = {"type": "fact", "title": word, "body": {"text": word}, "compartment": compartment}
            refused, data = self.say(agent, "kl_store", **fields)
            assert refused == ("" if compartment in GRANTS[agent] else "forbidden")
            if refused:
                return multiple()
            id_ = data["stored"]["id"]
            self.items[id_] = {"title": word, "compartment": compartment, "version": 1}
            return id_

        @rule(agent=agents, id_=ids, word=words, compartment=compartments)
        def update(self, agent: str, id_: str, word: str, compartment: str) -> None:
            fields = {"type": "fact", "title": word, "body": {"text": word}, "compartment": compartment, "id": id_}
            refused, data = self.say(agent, "kl_store", **fields)
            if compartment not in GRANTS[agent]:
                assert refused == "forbidden"
            elif not self.sees(agent, id_):
                assert refused == "not_found"
            elif self.would_cross(id_, compartment):
                assert refused == "firewall_crossed"
            else:
                assert refused == ""
                item = self.items[id_]
                item.update(title=word, compartment=compartment, version=item["version"] + 1)
                assert data["stored"]["version"] == item["version"]

        def would_cross(self, id_: str, compartment: str) -> bool:
            others = [b if a == id_ else a for a, b in self.links if id_ in (a, b)]
            return any(
                "divorce" in (compartment, self.items[other]["compartment"])
                and compartment != self.items[other]["compartment"]
                for other in others
            )

        @rule(agent=agents, id_=ids)
        def get(self, agent: str, id_: str) -> None:
            refused, data = self.say(agent, "kl_get", id=id_)
            assert refused == ("" if self.sees(agent, id_) else "not_found")
            if not refused:
                assert {name: data["item"][name] for name in self.items[id_]} == self.items[id_]

        @rule(agent=agents, id_=ids)
        def promote(self, agent: str, id_: str) -> None:
            refused, data = self.say(agent, "kl_promote", id=id_)
            assert refused == ("" if self.sees(agent, id_) else "not_found")
            assert data is None or data["promoted"]["tier"] == "working"

        @rule(agent=agents, one=ids, other=ids)
        def link(self, agent: str, one: str, other: str) -> None:
            refused, _ = self.say(agent, "kl_link", from_id=one, to_id=other, relation="about")
            if one == other:
                assert refused == "invalid_request"
            elif not (self.sees(agent, one) and self.sees(agent, other)):
                assert refused == "not_found"
            elif len({self.items[id_]["compartment"] for id_ in (one, other)} | {"divorce"}) == 2 and (
                self.items[one]["compartment"] != self.items[other]["compartment"]
            ):
                assert refused == "firewall_crossed"
            else:
                assert refused == ""
                self.links.add((one, other))

        @rule(agent=agents, word=words)
        def search(self, agent: str, word: str) -> None:
            _, data = self.say(agent, "kl_search", question=word, limit=50)
            found = {hit["id"]: hit["title"] for hit in data["results"]}
            assert all(self.sees(agent, id_) and self.items[id_]["title"] == title for id_, title in found.items())
            wanted = {id_ for id_ in self.items if self.sees(agent, id_) and self.items[id_]["title"] == word}
            assert wanted <= found.keys()

        @rule(agent=agents, word=words)
        def ask(self, agent: str, word: str) -> None:
            refused, data = self.say(agent, "kl_ask", question=word, types=["decision"])
            assert (refused, data) == ("", {"evidence": []})

        @rule(agent=agents)
        def brief(self, agent: str) -> None:
            _, data = self.say(agent, "kl_brief")
            assert {item["id"] for item in data["items"]} == {id_ for id_ in self.items if self.sees(agent, id_)}

        @rule(id_=ids)
        def gate(self, id_: str) -> None:
            assert self.say("chief", "kl_gate", action="candidates") == ("", {"candidates": []})
            refused, _ = self.say("chief", "kl_gate", action="admit", id=id_)
            assert refused == ("conflict" if self.sees("chief", id_) else "not_found")

        @rule(id_=consumes(ids))
        def delete(self, id_: str) -> None:
            refused, data = self.say("owner", "kl_delete", id=id_)
            assert refused == ("" if id_ in self.items else "not_found")
            if not refused:
                assert data["deleted"] == [id_]
                del self.items[id_]
                self.links = {pair for pair in self.links if id_ not in pair}

        def teardown(self) -> None:
            report = layer.provenance.verify(OWNER)
            assert report.findings == []

    run_state_machine_as_test(
        Estate,
        settings=settings(
            max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
