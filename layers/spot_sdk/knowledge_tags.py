"""Tags: the shared vocabulary, the one rule of what a tag may be, and how any label becomes one."""

from __future__ import annotations

import re
import unicodedata

MAX_TAG_LENGTH = 128

TAG_RULE = f"letters, digits, '_', '-' and ':', at most {MAX_TAG_LENGTH} characters"

_SPELLED_OUT = {"&": "and", "+": "plus", "#": "sharp", "@": "at", "%": "percent"}


class KnowledgeTag:
    """Well-known tags. They are plain strings: a provider may bring its own, such as ``acme:jira_issue``."""

    # what a document is
    EMPLOYEE = "employee"
    WIKI_PAGE = "wiki_page"
    POLICY = "policy"
    ORG_CHART = "org_chart"
    INCIDENT_REPORT = "incident_report"
    TICKET = "ticket"
    THREAT_REPORT = "threat_report"
    SENDER_HISTORY = "sender_history"
    # whom or what it concerns
    EXECUTIVE = "executive"
    DIRECTOR = "director"
    FINANCE = "finance"
    ENGINEERING = "engineering"
    HR = "hr"
    PUBLIC = "public"
    INTERNAL = "internal"


WELL_KNOWN_TAGS: tuple[str, ...] = tuple(
    value for name, value in vars(KnowledgeTag).items() if name.isupper() and isinstance(value, str)
)


def is_tag_character(character: str) -> bool:
    """True for what may stand in a tag: a letter, mark or digit of any script, ``_``, ``-`` or ``:``."""
    return character in "_-:" or unicodedata.category(character)[0] in "LMN"


def is_tag(text: str) -> bool:
    """True when ``text`` may be stored as a tag, which is when a tag expression can ask for it."""
    return (
        0 < len(text) <= MAX_TAG_LENGTH and all(map(is_tag_character, text)) and unicodedata.is_normalized("NFC", text)
    )


def to_tag(label: str) -> str:
    """The tag for a human label, the same for the same label for ever.

    Signs that tell labels apart are spelled out, everything else that a tag may not hold becomes one ``_``,
    and letters are lower-cased::

        "R&D" -> "r_and_d"      "C++" -> "c_plus_plus"      "Human Resources" -> "human_resources"

    Raises ValueError when nothing of the label can stand in a tag.
    """
    text = unicodedata.normalize("NFKC", label).lower()
    text = re.sub(r"[&+#@%]", lambda sign: f"_{_SPELLED_OUT[sign[0]]}_", text)
    text = "".join(c if is_tag_character(c) else "_" for c in text)
    text = unicodedata.normalize("NFC", re.sub(r"__+", "_", text).strip("_")[:MAX_TAG_LENGTH]).rstrip("_")
    if not is_tag(text):
        raise ValueError(f"no tag can be made of {label!r}")
    return text
