"""What counts as a request that policies speak of, and what is merely talk about the same things."""

from __future__ import annotations

import time

import pytest

from examples.analyzers.rules.requests import requests_in
from examples.analyzers.rules.settings import rules

LEXICON = rules({}).lexicon()


def kinds(text: str) -> list[str]:
    return [one.kind for one in requests_in(text, LEXICON)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Could you get 8 gift\ncards of CAD 200 each?", "gift_cards"),
        ("I have changed banks and would like my salary to go there.", "bank_details"),
        ("Bitte verwenden Sie die neue Bankverbindung.", "bank_details"),
        ("I need a transfer of 96,500 to leave before the weekend.", "transfer"),
        ("To keep your messages, confirm your current password now:", "credentials"),
        ("Send me the list of all employees with date of birth and home address.", "personal_data"),
        ("Let us skip the onboarding for this one.", "bypass"),
        ("For now this stays between you and me.", "secrecy"),
        ("I can’t talk right now.", "pressure"),
    ],
)
def test_a_request_is_found_across_lines_and_languages(text: str, kind: str) -> None:
    assert kind in kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "Our bank details are the ones you have had since 2017.",
        "Invoice 17 waits for your approval and goes out with Thursday's run.",
        "We never ask you to confirm your password.",
        "This e-mail is confidential and may be privileged.",
        "> Please buy gift cards and send me the codes.",
        "",
    ],
)
def test_talk_advice_and_quotations_are_no_request(text: str) -> None:
    assert kinds(text) == []


def test_each_kind_is_told_once_with_the_words_that_make_it() -> None:
    [found] = requests_in("Please buy gift cards. Then buy more gift cards.", LEXICON)
    assert found.words == "buy gift cards"


@pytest.mark.parametrize("piece", ["need ", "new account ", "password ", "a", "\n\n> ", "list of "])
def test_a_long_mail_is_read_in_time(piece: str) -> None:
    started = time.process_time()
    kinds(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 2
