"""The Knowledge Layer's speed, and whether its speed tells what is hidden.

    .venv/bin/python -m bench.items [--items 10000] [--calls 200] [--gets 1000]

Starts a PostgreSQL of its own and stores items of random words in two compartments, a minute for each 10,000.
Prints p50 and p95 of get, search and brief for a session that sees one of them, and the area under the ROC curve (AUC)
of telling a hidden item from an absent one by the time that a refused get takes, the two asked for by turns: .5 is
chance.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.embedding.hashing import HashEmbedder
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import ItemDraft
from knowledge.items.session import AgentClass, Session
from local.postgres import EmbeddedPostgres
from spot_sdk.errors import NotFound

OWNER = Session("bench", AgentClass.OWNER)
AGENT = Session("muse", AgentClass.FLEET, frozenset({"work"}))
WORKING = 200
"""So many of the items are of the working tier; the others have cooled down."""


def auc(lower: Sequence[float], higher: Sequence[float]) -> float:
    """The share of pairs in which one of ``higher`` is above one of ``lower``; ties count a half."""
    ranked = sorted([*((value, 0) for value in lower), *((value, 1) for value in higher)])
    total, at = 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        total += (at + end + 1) / 2 * sum(kind for _, kind in ranked[at:end])
        at = end
    return (total - len(higher) * (len(higher) + 1) / 2) / (len(lower) * len(higher))


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def refused(layer: KnowledgeLayer, item_id: str) -> None:
    try:
        layer.store.get(item_id, AGENT)
    except NotFound:
        return
    raise AssertionError("it was found")


def told(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"p50 {statistics.median(ordered):.1f} ms   p95 {ordered[int(0.95 * len(ordered))]:.1f} ms"


def filled(layer: KnowledgeLayer, count: int, chance: random.Random) -> dict[str, list[str]]:
    """Ids by compartment."""
    vocabulary = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(5_000)]
    ids: dict[str, list[str]] = {"work": [], "home": []}
    for compartment in ids:
        layer.compartments.add(compartment, OWNER)
    for number in range(count):
        compartment = "work" if number % 2 else "home"
        draft = ItemDraft(
            type="fact",
            title=" ".join(chance.choices(vocabulary, k=4)),
            body={"text": " ".join(chance.choices(vocabulary, k=60))},
            compartment=compartment,
            tier="working" if number < WORKING else "short-term",
        )
        ids[compartment].append(layer.store.store(draft, OWNER).id)
    return ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=200, help="calls of each kind")
    parser.add_argument("--gets", type=int, default=1_000, help="gets of hidden and of absent items, each")
    arguments = parser.parse_args()
    chance = random.Random(11)  # noqa: S311 - the same run each time
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "data", durable=False) as server:
        migrate(server.dsn, HashEmbedder().model)
        database = Database(lambda: server.dsn, application_name="bench")
        layer = KnowledgeLayer.on(database)
        started = time.perf_counter()
        all_ids = filled(layer, arguments.items, chance)
        print(f"{arguments.items:,} items stored in {time.perf_counter() - started:.0f} s", flush=True)
        indexing = timed(lambda: layer.search.search("a first question", ["work"], AGENT))
        print(f"the first search embeds what is in scope: {indexing / 1000:.1f} s", flush=True)
        titles = [item.title for item in layer.store.look(all_ids["work"][: arguments.calls], OWNER)]
        works: dict[str, Callable[[int], Any]] = {
            "get": lambda n: layer.store.get(all_ids["work"][n % len(all_ids["work"])], AGENT),
            "search": lambda n: layer.search.search(titles[n % len(titles)], ["work"], AGENT),
            "brief": lambda n: layer.store.working(AGENT),
        }
        times: dict[str, list[float]] = {name: [] for name in works}
        for number in range(arguments.calls):
            for name, work in works.items():
                times[name].append(timed(lambda work=work, number=number: work(number)))
        for name, each in times.items():
            print(f"{name:8} {told(each)}")
        hidden, absent = [], []
        for _ in range(arguments.gets):
            pair = [(hidden, chance.choice(all_ids["home"])), (absent, f"{chance.getrandbits(128):032x}")]
            chance.shuffle(pair)
            for into, item_id in pair:
                into.append(timed(lambda item_id=item_id: refused(layer, item_id)))
        print(f"hidden  {told(hidden)}\nabsent  {told(absent)}\nAUC {auc(absent, hidden):.3f}")
        database.close()


if __name__ == "__main__":
    main()
