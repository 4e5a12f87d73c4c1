"""Which addresses and names a text holds, and what it is worth that two of them resemble each other."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.people import (
    MAX_ADDRESSES,
    MAX_NAMES,
    NEAR,
    PERSON_SCORE,
    Compared,
    Field,
    Judged,
    best,
    judge,
    judge_domain,
    mentions,
    similarity,
)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("alma@example.com", ["alma@example.com"]),
        ("Did alma.winterfeld@example.com, our buyer, write this?", ["alma.winterfeld@example.com"]),
        ("Write to (alma@example.com).", ["alma@example.com"]),
        ('From: "Alma Winterfeld" <alma@example.com>', ["alma@example.com"]),
        ("mailto:alma@example.com?subject=x", ["alma@example.com"]),
        ('"alma winterfeld"@example.com', ["alma winterfeld@example.com"]),
        ("alma+lists@mail.example.co.uk", ["alma+lists@mail.example.co.uk"]),
        ("аlma@exаmple.com", ["аlma@exаmple.com"]),  # Cyrillic a
        ("alma＠example．com", ["alma＠example．com"]),
        ("alma@xn--exmple-4nf.com", ["alma@xn--exmple-4nf.com"]),
        ("a@x.example b@y.example A@X.EXAMPLE", ["a@x.example", "b@y.example"]),
        ("at 5 @ noon, @handle, alma@localhost, alma@.com", []),
    ],
)
def test_addresses_are_found_wherever_they_stand(text: str, addresses: list[str]) -> None:
    assert list(mentions(text).addresses) == addresses


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Alma Winterfeld", "Alma Winterfeld"),
        ("who is alma winterfeld", "alma winterfeld"),
        ('From: "Alma Winterfeld" <x@y.example>', "Alma Winterfeld"),
        ("From: Alma Winterfeld <x@y.example>", "Alma Winterfeld"),
        ('From: "Winterfeld, Alma" <x@y.example>', "Winterfeld, Alma"),
        ("From: Winterfeld, Alma <x@y.example>", "Winterfeld, Alma"),
        ("Cc: Boris Quellmann <b@y.example>, alma winterfeld <x@y.example>, c@y.example", "alma winterfeld"),
        ("From: =?utf-8?b?QWxtYSBXaW50ZXJmZWxk?= <x@y.example>", "Alma Winterfeld"),
        ("pay alma.winterfeld.ceo@quickpost.example now", "alma winterfeld"),
        ("Please tell me until Friday whether Jan van der Berg may sign contracts", "Jan van der Berg"),
        ("請問這封信是不是 王小明 寫的", "王小明"),
    ],
)
def test_names_are_found_wherever_they_stand(text: str, name: str) -> None:
    assert name in mentions(text).names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Please",
        "=?utf-8?b?!?=",
        "how do we pay an invoice that came by mail twice this month",
        "Is it? No. Why not? Yes. Because of rules, then, as ever, from Monday on",
    ],
)
def test_where_nobody_is_named_nobody_is_looked_up(text: str) -> None:
    assert mentions(text) == ((), ())
    assert not mentions(text)


def test_who_stands_in_a_header_comes_before_who_stands_in_the_text() -> None:
    found = mentions("Boris Quellmann and Clara Dornbusch met\nFrom: Alma Winterfeld <x@y.example>")
    assert found.names[0] == "Alma Winterfeld"


def test_what_is_found_is_bounded() -> None:
    found = mentions("".join(f"n{n}@example{n}.com Anna{n:x} Berta{n:x}, " for n in range(2000)))
    assert len(found.addresses) == MAX_ADDRESSES
    assert len(mentions("Alma Boris Clara Dora " * 5000 + "Emil Fritz").names) <= MAX_NAMES


@pytest.mark.parametrize("part", ["@", "a@b ", "a@b.example,", "<", '<"', "Anna Berta ", "x", "=?a?b?", "a.", "\\'\" "])
def test_a_text_of_a_hundred_thousand_characters_is_read_in_time(part: str) -> None:
    started = time.process_time()
    mentions((part * 100_000)[:100_000])
    assert time.process_time() - started < 5  # a pattern that tries every pair of places takes minutes


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    found = mentions(text)
    assert all(found.addresses)
    assert all(found.names)
    assert mentions(text) == found


def address(text: str, *, folded: str | None = None, folded_domain: str | None = None) -> Compared:
    local, _, domain = text.lower().partition("@")
    return Compared(
        text,
        local,
        folded if folded is not None else local.replace(".", " "),
        domain,
        folded_domain if folded_domain is not None else domain.replace(".", " "),
    )


def name(text: str, *, folded: str | None = None) -> Compared:
    return Compared(text, text.lower(), folded if folded is not None else text.lower(), "", "")


JANE = address("jane.doe@example.com")
EIRN, ERIN = address("eirn.doe@example.com", folded="elm doe"), address("erin.doe@example.com", folded="erln doe")
JANE_DOE = name("Jane Doering")


@pytest.mark.parametrize(
    ("field", "asked", "stored", "evidence", "score"),
    [
        ("address", JANE, JANE, ("address", "exact", 1.0), 1.0),
        ("address", address("jane.d0e@example.com", folded="jane doe"), JANE, ("address", "lookalike", 1.0), 0.97),
        ("address", address("jnae.doe@example.com"), JANE, ("address", "near", (1 - 1 / 8 + 1) / 2), None),
        ("address", address("jane.doe@quickpost.org"), JANE, ("local_part", "exact", 1.0), 0.8),
        ("address", address("jane.d0e@q.org", folded="jane doe"), JANE, ("local_part", "lookalike", 1.0), 0.78),
        ("address", EIRN, ERIN, ("address", "near", (1 - 1 / 8 + 1) / 2), None),
        ("name", JANE_DOE, JANE_DOE, ("name", "exact", 1.0), 0.9),
        ("name", name("Jane D0ering", folded="jane doering"), JANE_DOE, ("name", "lookalike", 1.0), 0.88),
        ("name", name("Jane Doerign"), JANE_DOE, ("name", "near", 1 - 1 / 12), 0.85 * (1 - 1 / 12)),
        ("name", name("Doering Jane"), JANE_DOE, ("name", "near", 1.0), 0.85),
    ],
)  # fmt: skip
def test_what_fits_has_evidence_and_a_score(
    field: Field, asked: Compared, stored: Compared, evidence: tuple[str, str, float], score: float | None
) -> None:
    judged = judge(field, asked, stored, own=True)
    assert judged is not None
    said = judged.evidence
    assert (said.field, said.match) == evidence[:2]
    assert said.similarity == pytest.approx(evidence[2])
    assert (said.asked, said.stored) == (asked.text, stored.text)
    assert judged.score == pytest.approx(0.95 * evidence[2] if score is None else score)
    assert judged.score >= PERSON_SCORE


@pytest.mark.parametrize(
    ("field", "asked", "stored"),
    [
        ("address", address("john.smith@example.com"), JANE),
        ("address", address("info@quickpost.org"), address("info@example.com")),  # is everywhere
        ("name", name("Jane Smith"), JANE_DOE),
        ("name", name("Doering"), name("Doerign")),  # of one word: too little to go by
    ],
)
def test_what_does_not_fit_is_worth_nothing(field: Field, asked: Compared, stored: Compared) -> None:
    assert judge(field, asked, stored, own=True) is None


def test_who_is_merely_mentioned_is_worth_less() -> None:
    judged = judge("address", JANE, JANE, own=False)
    assert judged is not None
    assert judged.score == pytest.approx(0.9)


def test_a_domain_that_imitates_a_known_one_is_told_below_what_speaks_of_a_person() -> None:
    alike = judge_domain(address("x@examp1e.com", folded_domain="example com"), "example.com", "example com")
    near = judge_domain(address("x@exampel.com"), "example.com", "example com")
    assert alike is not None
    assert near is not None
    assert (alike.evidence.match, alike.evidence.asked, alike.evidence.stored) == (
        "lookalike", "examp1e.com", "example.com",
    )  # fmt: skip
    assert near.evidence.match == "near"
    assert near.score < alike.score < PERSON_SCORE
    assert judge_domain(JANE, "example.com", "example com") is None
    assert judge_domain(address("x@quickpost.org"), "example.com", "example com") is None


def test_a_second_kind_of_evidence_adds_a_little() -> None:
    by_address, by_name = judge("address", JANE, JANE, own=False), judge("name", JANE_DOE, JANE_DOE, own=True)
    assert by_address is not None
    assert by_name is not None
    both = best([by_name, by_address])
    assert both.score == pytest.approx(0.9 + 0.02 * 0.9)
    assert best([by_address, by_address]).score == by_address.score
    assert best([Judged(1.0, by_address.evidence), by_name]).score == 1.0


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", 1.0),
        ("winterfeld", "winterfeld", 1.0),
        ("winterfeld", "winterfled", 0.9),  # swapped
        ("winterfeld", "winterfald", 0.9),
        ("winterfeld", "winterfel", 0.9),
        ("winterfeld", "iwnterfled", 0.8),
        ("winterfeld", "wimtermald", 0.0),
        ("winterfeld", "", 0.0),
        ("jane", "jnae", 0.0),  # of four letters, two
    ],
)
def test_similarity_counts_slips(first: str, second: str, expected: float) -> None:
    assert similarity(first, second) == pytest.approx(expected)


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_similarity_is_symmetric_and_zero_or_near(first: str, second: str) -> None:
    found = similarity(first, second)
    assert found == similarity(second, first)
    assert found == 0 or NEAR <= found <= 1
    assert (found == 1) == (first == second)
