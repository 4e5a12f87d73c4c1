"""What each finding weighs, and what the sum of them is called.

A weight reads as "how likely phishing is, were this all we knew". Findings are taken as independent of one another: the
score is one minus the product of what each leaves open, so that it grows with every finding and stays below 1. How the
weights were chosen, and on which cases, is in docs/adr/0014-mail-verdicts.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Literal

from examples.analyzers.rules.domains import Trick

PHISHING = 0.5
SUSPICIOUS = 0.25

Rank = Literal["executive", "director", "other"]
Label = Literal["phishing", "suspicious", "clean"]

AUTHENTICATION_FAILED = 0.75
"""Our own domain, or a known address, and the gateway says that it is forged."""

PERSON_AT_IMITATED_DOMAIN = 0.9
DOMAIN_IMITATED: dict[Trick, float] = {
    "homoglyph": 0.85,
    "subdomain": 0.75,
    "letter": 0.7,
    "ending": 0.55,
    "word": 0.55,
}
CONTACT_IMITATED = 0.6
NEAR_AT_OUR_DOMAIN = 0.55
NEAR_AND_AUTHENTICATED = 0.1
"""Somebody new, whom the directory does not have yet: Jana beside Jane."""

CLAIMED_BY_ADDRESS = 0.75
CLAIMED_BY_NAME: dict[Rank, float] = {"executive": 0.6, "director": 0.45, "other": 0.3}
"""Alone, the name of an executive is enough. That of anybody else is not: people have namesakes."""

CLAIMED_BY_NEAR_NAME: dict[Rank, float] = {"executive": 0.25, "director": 0.2, "other": 0.0}
CLAIMED_BY_LOCAL_PART: dict[Rank, float] = {"executive": 0.45, "director": 0.35, "other": 0.2}

REPLY_TO_IMITATION = 0.8
REPLY_ELSEWHERE = 0.6
RETURN_PATH_ELSEWHERE = 0.35

EVEN_FROM_THE_RIGHT_ADDRESS = 0.5
"""Of a request's weight, when a colleague makes it from their own, authenticated address: mailboxes are taken over."""


def score(weights: Iterable[float]) -> float:
    """0 for nothing found, else below 1."""
    return 1 - prod(1 - weight for weight in weights)


def label(score: float) -> Label:
    if score >= PHISHING:
        return "phishing"
    return "suspicious" if score >= SUSPICIOUS else "clean"
