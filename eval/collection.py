"""Collections: documents, questions, and which documents answer which question.

A collection is a folder of one of these kinds:

- BEIR: ``corpus.jsonl`` (_id, title, text), ``queries.jsonl`` (_id, text), ``qrels.tsv`` (query, document, grade);
- a handbook: Markdown under ``pages/``, asked by the texts of its links (``window_rule.py`` says how). A page ranks by
  its best chunk, and pages that carry the link are no candidates;
- a company: Markdown under ``handbook/``, asked by ``questions.jsonl`` ({"question", "gold": [page]} a line).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.window_rule import load_collection
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.markdown_tree import MarkdownTree


@dataclass(frozen=True)
class Question:
    """``grades`` of the answers by name; what is ``excluded`` does not count as found."""

    id: str
    text: str
    grades: dict[str, int]
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Collection:
    """``answers`` names what a document is part of, where answers are wholes and documents their chunks."""

    name: str
    documents: list[KnowledgeDocument]
    questions: list[Question]
    answers: dict[str, str] = field(default_factory=dict)

    def ranking(self, documents: Iterable[str], question: Question) -> list[str]:
        """The answers in the order of their best documents."""
        names = dict.fromkeys(self.answers.get(id_, id_) for id_ in documents)
        return [name for name in names if name not in question.excluded]


def load(folder: Path, chunk_chars: int, questions: Path | None = None) -> Collection:
    """The collection in a folder, its pages cut to ``chunk_chars``; of a company with other ``questions`` than its own.

    Raises ValueError when it is no collection.
    """
    if (folder / "corpus.jsonl").is_file():
        return _load_beir(folder)
    if (folder / "pages").is_dir():
        return _load_handbook(folder, chunk_chars)
    if (folder / "handbook").is_dir():
        return _load_company(folder, chunk_chars, questions or folder / "questions.jsonl")
    raise ValueError(f"{folder}: neither corpus.jsonl nor pages/ nor handbook/ is there")


def _load_beir(folder: Path) -> Collection:
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        grades.setdefault(query, {})[document] = int(grade)
    documents = [
        KnowledgeDocument(id=row["_id"], content=row["text"], metadata={"title": row.get("title", "")})
        for row in _rows(folder / "corpus.jsonl")
    ]
    questions = [
        Question(row["_id"], row["text"], grades[row["_id"]])
        for row in _rows(folder / "queries.jsonl")
        if row["_id"] in grades
    ]
    return Collection(folder.name, documents, questions)


def _load_handbook(folder: Path, chunk_chars: int) -> Collection:
    found = load_collection(folder, every=1)
    documents, answers = _chunks(found.pages, chunk_chars)
    questions = [
        Question(f"q{number}", asked.text, dict.fromkeys(asked.gold, 1), asked.excluded)
        for number, asked in enumerate(found.questions)
    ]
    return Collection(folder.name, documents, questions, answers)


def _load_company(folder: Path, chunk_chars: int, questions: Path) -> Collection:
    documents, answers = _chunks(folder / "handbook", chunk_chars)
    asked = [
        Question(f"q{number}", row["question"], dict.fromkeys(row["gold"], 1))
        for number, row in enumerate(_rows(questions))
    ]
    return Collection(folder.name, documents, asked, answers)


def _chunks(pages: Path, chunk_chars: int) -> tuple[list[KnowledgeDocument], dict[str, str]]:
    tree = MarkdownTree(pages, source="eval", chunk_chars=chunk_chars)
    read = {path: tree.read(path).documents for path in tree.survey().pages}
    documents = [document for chunks in read.values() for document in chunks]
    return documents, {document.id: path for path, chunks in read.items() for document in chunks}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)
