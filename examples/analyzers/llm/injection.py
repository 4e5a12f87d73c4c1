"""Mails that speak to the one who judges them, instead of to the one they are written to."""

from __future__ import annotations

import re

_MAX_LENGTH = 50_000
_PATTERNS = [
    r"\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|all|your|these)\b.{0,40}"
    r"\b(instructions?|rules|prompts?)\b",
    r"\b(system|developer) (prompt|message)\b",
    r"\byou are (now )?(an? )?(ai|assistant|language model|llm|classifier|phishing (filter|detector|analy[sz]er))\b",
    r"\b(as|to) an? (ai|language model|llm)\b",
    r"\b(classify|label|mark|rate|report|treat) (this|the) (e-?mail|mail|message) as\b",
    r"\"(verdict|is_phishing|confidence)\"\s*:",
    r"<\|[^|<>]{1,40}\|>|\[/?INST\]|<</?SYS>>",
    r"\b(begin|end) [0-9a-f]{16,}\b",
]
_SPOKEN_TO = re.compile("|".join(_PATTERNS), re.IGNORECASE)


def words_to_the_judge(text: str) -> str | None:
    """The first words that speak to a model, None where there are none. Invisible characters do not hide them."""
    plain = re.sub(r"[\u00ad\u200b-\u200f\u2060\ufeff]", "", text[:_MAX_LENGTH])
    found = _SPOKEN_TO.search(" ".join(plain.split()))
    return found[0][:120] if found else None
