"""``knowledge analyze``: a verdict that people can read and scripts can branch on."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import StoreUnavailable
from spot_sdk.testing import FakeKnowledgeClient

Knowledge = Callable[..., Any]

VERA = KnowledgeDocument(
    id="employee:vera.lind@tidewater.example",
    content="Vera Lind is CEO. Their e-mail address is vera.lind@tidewater.example.",
    tags=["employee", "executive"],
    metadata={"name": "Vera Lind", "email": "vera.lind@tidewater.example", "title": "CEO"},
    source="directory",
)
OMAR = VERA.model_copy(
    update={
        "id": "employee:omar.castel@tidewater.example",
        "content": "Omar Castel is a buyer. Their e-mail address is omar.castel@tidewater.example.",
        "tags": ["employee"],
        "metadata": {"name": "Omar Castel", "email": "omar.castel@tidewater.example"},
    }
)


@pytest.fixture
def full_store(store: FakeKnowledgeClient) -> FakeKnowledgeClient:
    asyncio.run(store.bulk_upsert([VERA, OMAR]))
    return store


@pytest.fixture
def mail(tmp_path: Path) -> Callable[[str], str]:
    def mail(sender: str, text: str = "Hello") -> str:
        path = tmp_path / "mail.eml"
        path.write_text(f"From: {sender}\nTo: omar.castel@tidewater.example\nSubject: Quick task\n\n{text}\n")
        return str(path)

    return mail


def test_a_forged_mail_is_told_with_what_shows_it(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, mail: Callable[[str], str]
) -> None:
    ended = knowledge("analyze", mail("Vera Lind <office77@gmail.com>"))
    assert ended.code == 10
    for part in ("PHISHING", "Vera Lind <office77@gmail.com>", "Quick task", "name_of_known_person", "0.60"):
        assert part in ended.out
    assert f"{VERA.id} (directory, score 0." in ended.out
    assert ended.err == ""


def test_a_genuine_mail_is_clean(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, mail: Callable[[str], str]
) -> None:
    ended = knowledge("analyze", mail("Vera Lind <vera.lind@tidewater.example>"))
    assert (ended.code, "CLEAN" in ended.out, "weight" in ended.out) == (0, True, False)


def test_a_namesake_is_suspicious(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, mail: Callable[[str], str]
) -> None:
    ended = knowledge("analyze", mail("Omar Castel <omar@elsewhere.test>"))
    assert (ended.code, "SUSPICIOUS" in ended.out) == (11, True)


def test_json_is_the_analyzers_own_result(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, mail: Callable[[str], str]
) -> None:
    ended = knowledge("analyze", mail("Vera Lind <office77@gmail.com>"), "--json")
    result = json.loads(ended.out)
    assert (result["is_phishing"], result["analyzer"], ended.code) == (True, "rules", 10)
    [evidence] = result["indicators"][0]["evidence"]
    assert (evidence["document_id"], evidence["source"]) == (VERA.id, "directory")


def test_a_dash_reads_the_mail_from_stdin(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO(b"From: Vera Lind <office77@gmail.com>\n\nHello\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
    assert knowledge("analyze", "-").code == 10


def test_without_a_store_or_a_model_there_is_no_verdict(
    knowledge: Knowledge, store: FakeKnowledgeClient, mail: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_BACKEND", raising=False)
    ended = knowledge("analyze", mail("a@b.test"), "--analyzer", "llm")
    assert (ended.code, "NO VERDICT" in ended.out, "LLM_BACKEND" in ended.out) == (12, True, True)
    store.fail_with(StoreUnavailable("the database is away"))
    ended = knowledge("analyze", mail("a@b.test"))
    assert (ended.code, "the database is away" in ended.out) == (12, True)


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "cannot be read"), (b" \n", "empty"), (b"x" * 25_000_001, "bytes")]
)
def test_what_is_no_mail_is_refused(
    knowledge: Knowledge, store: FakeKnowledgeClient, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "mail.eml"
    if content is not None:
        path.write_bytes(content)
    ended = knowledge("analyze", str(path))
    assert (ended.code, complaint in ended.err) == (2, True)


def test_a_wrong_setting_is_one_line(
    knowledge: Knowledge, store: FakeKnowledgeClient, mail: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULES_FREEMAIL", "nowhere.txt")
    ended = knowledge("analyze", mail("a@b.test"))
    assert (ended.code, "RULES_FREEMAIL" in ended.err) == (2, True)


def test_what_a_mail_writes_does_not_steer_the_terminal(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, mail: Callable[[str], str]
) -> None:
    ended = knowledge("analyze", mail('"Vera Lind\x1b[2J" <o\u202effice@gmail.com>'))
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out
