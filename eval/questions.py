"""Questions with one right page, asked of a running store: at which place is the page?

    knowledge ingest PAGES --source handbook --tags wiki_page
    python eval/questions.py handbook

A page's place is that of its best chunk among the pages found. Ends with 1 when a page is not among the first five.
The questions of each source are in ``questions.json``; ``SPOT_KNOWLEDGE_URL`` says where the store is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import KnowledgeError

QUESTIONS = Path(__file__).with_name("questions.json")
AMONG_FIRST = 5
CHUNKS = 50


def pages(found: list[KnowledgeDocument]) -> list[str]:
    """The pages whose chunks were found, best first, each once: their paths below the source's folder."""
    parents = [str(document.metadata.get("parent_id", document.id)) for document in found]
    return list(dict.fromkeys(parent.partition(":")[2] for parent in parents))


async def places(source: str, strategy: str) -> list[tuple[str, str, int | None]]:
    """Question, page, and the page's place (1 is best; None: not found)."""
    asked = json.loads(QUESTIONS.read_text(encoding="utf-8"))[source]
    answers: list[tuple[str, str, int | None]] = []
    async with KnowledgeClient.from_environment() as client:
        for entry in asked:
            found = await client.fetch(text=entry["question"], top_k=CHUNKS, strategy=strategy)
            ranked = pages(found)
            place = ranked.index(entry["page"]) + 1 if entry["page"] in ranked else None
            answers.append((entry["question"], entry["page"], place))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=json.loads(QUESTIONS.read_text(encoding="utf-8")), help="whose questions")
    parser.add_argument("--strategy", default="similarity", help="similarity (default), diverse, hybrid or people")
    options = parser.parse_args()
    try:
        answers = asyncio.run(places(options.source, options.strategy))
    except KnowledgeError as error:
        sys.exit(f"questions: {error.message}")
    print("| question | page | place |\n|---|---|---|")
    for question, page, place in answers:
        print(f"| {question} | `{page}` | {place or f'not in the first {CHUNKS} chunks'} |")
    sys.exit(any(place is None or place > AMONG_FIRST for _, _, place in answers))


if __name__ == "__main__":
    main()
