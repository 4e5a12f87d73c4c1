"""How many tokens a text may become in a model whose tokenizer we do not have."""

from __future__ import annotations

import re
from typing import NamedTuple

from knowledge.embedding.windows import OVERLAP_PART, window_spans

_PIECE = re.compile(r"\s*(?:[A-Za-z0-9]{1,64}|\S)|\s+")
_BEGIN_AND_END = 2  # the tokens that a model adds to every text
_LONGEST_WORD = 24
_LETTERS_PER_TOKEN = 3
_BLANKS_PER_TOKEN = 4


class Piece(NamedTuple):
    """A stretch of text that ends at index ``end`` and may become ``tokens`` tokens."""

    end: int
    tokens: int


def estimated_windows(text: str, max_tokens: int) -> list[str]:
    """The text cut into overlapping windows that a model with a window of ``max_tokens`` reads whole; at least one."""
    pieces = estimate_pieces(text)
    starts = [0, *(piece.end for piece in pieces)]
    budget = max_tokens - _BEGIN_AND_END
    spans = window_spans([piece.tokens for piece in pieces], budget, budget // OVERLAP_PART)
    return [text[starts[first] : starts[last]] for first, last in spans]


def estimated_tokens(text: str) -> int:
    """How many tokens the text may become, on the safe side."""
    return sum(piece.tokens for piece in estimate_pieces(text))


def estimate_pieces(text: str) -> list[Piece]:
    """The text in small pieces, cut before words and signs, with the tokens that each may become, on the safe side.

    A word of letters counts a token for three of them (English has four to five); what mixes letters and digits or is
    too long for a word, such as base64, one for each; so do digits and signs. Characters of other scripts count one to
    three by their bytes in UTF-8. Measured with the tokenizers of BERT, XLM-RoBERTa and OpenAI, prose has about 0.6 of
    the tokens estimated; tables, source code, base64, hexadecimal and other scripts have at most 1.0.
    """
    return [Piece(match.end(), _tokens(match.group())) for match in _PIECE.finditer(text)]


def _tokens(piece: str) -> int:
    word = piece.lstrip()
    blanks = len(piece) - len(word)
    for_blanks = 1 + blanks // _BLANKS_PER_TOKEN if blanks > 1 else 0
    if not word.isascii():
        return for_blanks + len(word.encode()) - 1
    if word.isalpha() and len(word) <= _LONGEST_WORD:
        return for_blanks + -(-len(word) // _LETTERS_PER_TOKEN)
    return for_blanks + len(word)
