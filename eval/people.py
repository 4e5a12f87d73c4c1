"""How well people are found: by mistyped names, by addresses that imitate theirs, and not at all where none is meant.

    python eval/people.py                                        # 2,000 people who do not exist
    python eval/people.py --directory employees.json             # somebody's directory: name, email, title, department
    python eval/people.py --people 100000 --queries 200          # how long it takes
    python eval/people.py --unrelated PAGES --json people.json   # pages that speak of nobody in the directory

Each class of typos asks for people chosen at random, always the same ones. hit@1: the first document found is theirs.
Needs a database that may be filled (TEST_DATABASE_URL), or starts one of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from eval.directory import Person, document, people
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.search.people import PERSON_SCORE
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import EmbeddingModel

MODEL = EmbeddingModel(
    backend="hash", model="people", version="1", dimensions=8, max_input_tokens=1000, chunk_chars=2000
)
Question = Callable[[random.Random, Person], str]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LOOKALIKES = (("m", "rn"), ("w", "vv"), ("l", "1"), ("i", "l"), ("o", "0"), ("a", "а"), ("e", "е"), ("c", "с"))


def _parts(address: str) -> tuple[str, str]:
    local, _, domain = address.partition("@")
    return local, domain


def _swap(chance: random.Random, text: str) -> str:
    places = [n for n in range(len(text) - 1) if text[n] != text[n + 1] and text[n : n + 2].isalpha()]
    place = chance.choice(places)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def _substitute(chance: random.Random, text: str) -> str:
    place = chance.choice([n for n in range(len(text)) if text[n].isalpha()])
    letter = chance.choice([letter for letter in _LETTERS if letter != text[place].lower()])
    return text[:place] + letter + text[place + 1 :]


def _typo(chance: random.Random, text: str) -> str:
    return chance.choice((_swap, _substitute))(chance, text)


def swapped(chance: random.Random, person: Person) -> str:
    local, domain = _parts(person.email)
    return f"{_swap(chance, local)}@{domain}"


def substituted(chance: random.Random, person: Person) -> str:
    local, domain = _parts(person.email)
    return f"{_substitute(chance, local)}@{domain}"


def _imitate(domain: str) -> str:
    stem, _, top = domain.rpartition(".")
    letter, imitation = next(pair for pair in _LOOKALIKES if pair[0] in stem)
    return f"{stem.replace(letter, imitation, 1)}.{top}"


def lookalike_domain(chance: random.Random, person: Person) -> str:
    local, domain = _parts(person.email)
    return f"{local}@{_imitate(domain)}"


def lookalike_domain_plus_letter(chance: random.Random, person: Person) -> str:
    local, domain = _parts(person.email)
    stem, _, top = _imitate(domain).rpartition(".")
    place = chance.randrange(1, len(stem) + 1)
    return f"{local}@{stem[:place]}{chance.choice(_LETTERS)}{stem[place:]}.{top}"


def name_with_typo(chance: random.Random, person: Person) -> str:
    return f"{_typo(chance, person.name)} {person.department or person.title}"


def foreign_address(chance: random.Random, person: Person) -> str:
    return f'From: "{person.name}" <{_substitute(chance, "office")}{chance.randrange(100)}@quickpost.invalid>'


def in_a_sentence(chance: random.Random, person: Person) -> str:
    return f"Good morning, is it true that ({_imitate(person.email)}) may release payments above the limit since May?"


def exact(chance: random.Random, person: Person) -> str:
    return f"may I answer {person.email.upper() if chance.random() < 0.5 else person.email}?"


def role(chance: random.Random, person: Person) -> str:
    return f"who works as {person.title.lower()} in {person.location}"


CLASSES: dict[str, Question] = {
    "exact address": exact,
    "two letters swapped": swapped,
    "one letter substituted": substituted,
    "look-alike domain": lookalike_domain,
    "look-alike domain plus a letter": lookalike_domain_plus_letter,
    "look-alike address in a sentence": in_a_sentence,
    "name with a typo, and department": name_with_typo,
    "display name, foreign address": foreign_address,
    "role, paraphrased": role,
}
FLOORS = {name: 1.0 if name == "exact address" else 0.95 for name in CLASSES if name != "role, paraphrased"}

_STRANGERS = [
    "Aoife Cranmore",
    "Bartholomew Quist",
    "Ndidi Okonjo-Falk",
    "Yevgenia Tschernow",
    "Paulo Figueiredo",
    "Hans-Jürgen Mühlbauer",
    "Siobhan Gallowglass",
    "Takumi Morikawa",
    "Leocadia Wrzesniewska",
    "Dmitri Abramsky",
    "Consuelo Barrientos",
    "Ferdinand Oyelaran",
]
_MAILS = (
    "From: {name} <{local}@{domain}>\nTo: orders@{other}\nSubject: Delivery note {number}\n\nDear Sir or Madam,\n\n"
    "the second part of your order {number} leaves our works on Friday. Please let the forwarder know where to "
    "unload.\n\n"
    "Kind regards\n{name}\nDispatch, Tel. {number}\n",
    "From: Newsletter <news@{domain}>\nSubject: Ten recipes for the weekend\n\nHello {name},\n\nthis week we have "
    "soups: pumpkin, lentil, and one from Normandy. Unsubscribe at https://{domain}/bye?{number}\n",
    "From: {name} <{local}{number}@{domain}>\nReply-To: <{local}@{other}>\nSubject: Re: Flat near the station\n\nHi, "
    "the flat is still free. Could you come on Monday? The landlord, {stranger}, wants to meet you first.\n{name}\n",
)


def unrelated_mails(count: int, seed: int = 11) -> Iterator[str]:
    """Mails between people and firms that are in no directory."""
    chance = random.Random(seed)
    for number in range(count):
        name, stranger = chance.sample(_STRANGERS, 2)
        yield _MAILS[number % len(_MAILS)].format(
            name=name,
            stranger=stranger,
            local=".".join(name.lower().split()),
            domain=chance.choice(("cranmore-freight.invalid", "suppenpost.test", "wohnbrief.invalid", "gmx.test")),
            other=chance.choice(("hafen-kontor.invalid", "bellweather.test", "post.invalid")),
            number=1000 + number,
        )


def ask(
    search: DocumentSearch, asked: Sequence[Person], question: Question, seed: int = 3
) -> tuple[float, list[float], list[str]]:
    """hit@1, milliseconds of each query, and the questions that found somebody else."""
    chance = random.Random(seed)
    times: list[float] = []
    missed: list[str] = []
    for person in asked:
        text = question(chance, person)
        started = time.perf_counter()
        found = search.people(text, None, 5)
        times.append((time.perf_counter() - started) * 1000)
        if not found or found[0].id != person.document_id:
            missed.append(text)
    return 1 - len(missed) / len(asked), times, missed


def false_hits(search: DocumentSearch, texts: Iterable[str]) -> tuple[int, list[tuple[float, str]]]:
    """How many texts were asked, and what was found in them that speaks of a person."""
    count = 0
    hits: list[tuple[float, str]] = []
    for text in texts:
        count += 1
        for found in search.people(text, None, 1):
            if (found.score or 0) >= PERSON_SCORE:
                hits.append((found.score or 0, repr(found.evidence)))
    return count, hits


def store(database: Database, documents: Sequence[Any]) -> None:
    """Fill the store; meaning plays no part here, so all vectors are the same."""
    target = DocumentStore(database, MODEL)
    for start in range(0, len(documents), 1000):
        batch = documents[start : start + 1000]
        target.upsert([(Fingerprinted.of(one), [0.35] * MODEL.dimensions) for one in batch])
    database.run(lambda transaction: transaction.execute("ANALYZE knowledge_document_people"))


def read_directory(path: Path) -> list[Person]:
    return [
        Person(
            entry["name"], entry["email"], entry["title"], entry.get("department") or "", entry.get("location") or ""
        )
        for entry in json.loads(path.read_text(encoding="utf-8"))
    ]


@contextmanager
def _database(url: str | None) -> Iterator[str]:
    if url is None:
        with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "data", durable=False) as server:
            yield server.dsn
        return
    name = f"eval_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield make_conninfo(url, dbname=name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="a JSON list of people instead of generated ones")
    parser.add_argument("--people", type=int, default=2000, help="how many to generate (default 2000)")
    parser.add_argument("--initials", action="store_true", help="generate jdoe@ instead of jane.doe@")
    parser.add_argument("--queries", type=int, default=500, help="of each class at most (default 500)")
    parser.add_argument("--unrelated", type=Path, help="a folder of pages (*.md) that speak of nobody in the directory")
    parser.add_argument("--database", help="a PostgreSQL server's address; a database is created there and dropped")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()

    everybody = (
        read_directory(options.directory) if options.directory else people(options.people, initials=options.initials)
    )
    asked = random.Random(5).sample(everybody, min(options.queries, len(everybody)))
    figures: dict[str, Any] = {}
    with _database(options.database) as url:
        migrate(url, MODEL)
        database = Database(lambda: url)
        try:
            store(database, [document(person) for person in everybody])
            search = DocumentSearch(database, MODEL)
            print(f"{len(everybody)} people\n\n| class | hit@1 | p50 ms | p95 ms |\n|---|---|---|---|")
            for name, question in CLASSES.items():
                hit, times, missed = ask(search, asked, question)
                p50, p95 = statistics.median(times), sorted(times)[int(len(times) * 0.95)]
                figures[name] = {"hit@1": hit, "p50_ms": p50, "p95_ms": p95}
                print(f"| {name} | {hit:.3f} | {p50:.1f} | {p95:.1f} |")
                if name in FLOORS:
                    print(
                        *(f"    missed: {text}" for text in missed[:3]),
                        sep="\n",
                        end="\n" if missed else "",
                        file=sys.stderr,
                    )
            texts = {"mails": list(unrelated_mails(300))}
            if options.unrelated:
                texts["pages"] = [page.read_text("utf-8")[:100_000] for page in sorted(options.unrelated.rglob("*.md"))]
            for name, unrelated in texts.items():
                count, hits = false_hits(search, unrelated)
                figures[f"unrelated {name}"] = {"texts": count, "hits": len(hits)}
                print(f"\nunrelated {name}: {count}, with a hit of {PERSON_SCORE} or more: {len(hits)}")
                print(*(f"    {score:.2f} {evidence}" for score, evidence in hits[:10]), sep="\n", file=sys.stderr)
        finally:
            database.close()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.exit(any(figures[name]["hit@1"] < floor for name, floor in FLOORS.items()))


if __name__ == "__main__":
    main()
