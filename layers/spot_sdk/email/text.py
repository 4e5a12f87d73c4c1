"""From bytes and encoded words to text that can be stored and shown, and a list of what was mended on the way."""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterator
from encodings import normalize_encoding
from encodings.aliases import aliases

MAX_REPAIRS = 100

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"=\?(?P<charset>[^?\s*]{1,60})(?:\*[^?\s]{0,40})?\?(?P<encoding>[bBqQ])\?(?P<text>[^?]*)\?=")

# Python knows many more codecs by name, and some of them are compressors, or take time with the square of the length.
_CHARSETS = frozenset(
    {*aliases.values(), "utf_8_sig", "iso8859_1", "koi8_u", "koi8_t", "cp720", "cp737", "cp874", "cp875"}
) - {"base64_codec", "bz2_codec", "hex_codec", "mbcs", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_NO_BASE64 = bytes(set(range(256)) - set(_BASE64))
_MAX_PADDED = 100


class Repairs:
    """What was wrong with a mail, each once, in the order in which it was found."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def note(self, repair: str) -> None:
        if len(self._found) < MAX_REPAIRS:
            self._found[repair] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)


def clean(text: str, limit: int, repairs: Repairs) -> str:
    """Text without control characters and lone surrogates, of at most ``limit`` characters."""
    if len(text) > limit:
        repairs.note(f"text beyond {limit:,} characters was cut")
        text = text[:limit]
    if _CONTROLS.search(text):
        repairs.note("control characters were taken out")
        text = _CONTROLS.sub("", text)
    if _SURROGATES.search(text):
        repairs.note("bytes that are no text were replaced")
        text = _SURROGATES.sub("\ufffd", text)
    return text.strip()


def decode(payload: bytes, charset: str, repairs: Repairs, *, limit: int | None = None) -> str:
    """The bytes as text: in the named character set or, where they are not in it, as UTF-8 or Windows-1252.

    With ``limit``, of the first so many bytes; a character that this cuts is left out.
    """
    is_whole = limit is None or len(payload) <= limit
    payload = payload if is_whole else payload[:limit]
    named = charset_named(charset)
    for candidate in (named or "utf-8", "utf-8"):
        try:
            text = codecs.getincrementaldecoder(candidate)().decode(payload, is_whole)
        except ValueError:
            continue
        if charset and candidate != named:
            repairs.note(f"text is not in the character set that it names ({clean(charset, 60, repairs)})")
        return text
    repairs.note(f"bytes that are not {clean(charset, 60, repairs) or 'UTF-8'} were replaced")
    fallback = "cp1252" if named in (None, "ascii") else named
    return payload.decode(fallback, "replace")


def charset_named(name: str) -> str | None:
    """Python's name of a character set; None for what is none, or unknown."""
    if not name.isascii() or len(name) > 60:
        return None
    normal = normalize_encoding(name.strip().lower())
    found = aliases.get(normal, normal)
    return found if found in _CHARSETS else None


def decode_words(text: str, repairs: Repairs) -> str:
    """Text with encoded words (``=?utf-8?B?…?=``) decoded, also where they are not allowed, as readers do.

    Blanks between two of them are dropped, and a character that two of them share is put together.
    """
    pieces: list[str] = []
    charset, waiting, at = "", b"", 0
    for word in _WORD.finditer(text):
        between = text[at : word.start()]
        goes_on = at > 0 and not between.strip()
        if not goes_on or word["charset"].lower() != charset:
            pieces.append(decode(waiting, charset, repairs))
            waiting = b""
        if not goes_on:
            pieces.append(between)
        charset, at = word["charset"].lower(), word.end()
        waiting += _bytes_of(word, repairs)
    return "".join([*pieces, decode(waiting, charset, repairs), text[at:]])


def names_unknown_charset(text: str) -> bool:
    """Whether some encoded word names what is no character set."""
    return any(charset_named(word["charset"]) is None for word in _WORD.finditer(text))


def _bytes_of(word: re.Match[str], repairs: Repairs) -> bytes:
    encoded = word["text"].encode("utf-8", "replace")
    if word["encoding"] in "qQ":
        return binascii.a2b_qp(encoded, header=True)
    return decode_base64(encoded, repairs)


def decode_base64(encoded: bytes, repairs: Repairs, *, limit: int | None = None) -> bytes:
    """What is encoded, of which at most about ``limit`` bytes; characters outside the alphabet are passed over.

    Some readers stop at the padding and some go on: so do we, lest the rest be hidden.
    """
    plain = encoded.translate(None, _NO_BASE64)
    if limit is not None:
        plain = plain[: limit * 4 // 3 + 4]
    segments = [segment for segment in re.split(rb"=+", plain, maxsplit=_MAX_PADDED) if segment]
    if len(segments) > 1:
        repairs.note("base64 goes on after its end")
    decoded: list[bytes] = []
    for segment in segments:
        is_cut = len(segment) % 4 == 1  # six bits are no byte
        if is_cut:
            repairs.note("base64 is cut off")
        decoded.append(binascii.a2b_base64((segment[:-1] if is_cut else segment) + b"=="))
    return b"".join(decoded)
