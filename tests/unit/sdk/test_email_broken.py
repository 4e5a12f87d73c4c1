"""Mails that are broken, or made to break their reader: what is said of them, and that they cost little."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest

from spot_sdk.email import Email
from spot_sdk.email.addresses import read_loosely
from spot_sdk.email.parsing import MAX_BYTES, MAX_TEXT

MEGABYTE = 1_000_000
FROM = b"From: a@corp.example\n"
MULTIPART = FROM + b"Content-Type: multipart/mixed; boundary=b\n\n"

# --- what is mended is said ------------------------------------------------------------------------------------------

MENDED = {
    "nothing at all": (b"", "", "there is no From"),
    "a text and nothing else": (b"\n\nhello", "", "there is no From"),
    "blank lines before": (b"\r\n\r\n" + FROM + b"\nhello", "hello", ""),
    "a byte order mark": (b"\xef\xbb\xbf" + FROM + b"\nhello", "hello", ""),
    "carriage returns alone": (FROM.replace(b"\n", b"\r") + b"\rhello\rthere", "hello\nthere", ""),
    "an mbox line": (b"From a@corp.example Tue Mar 10\n" + FROM + b"\nhello", "hello", ""),
    "a line that is no header": (b"nonsense\n" + FROM + b"\nhello", "hello", "lines among the headers that are none"),
    "a blank before the colon": (b"From : a@corp.example\n\nhello", "hello", ""),
    "an unknown character set": (
        FROM + b"Content-Type: text/plain; charset=klingon\n\nGr\xc3\xbcn",
        "Grün",
        "text is not in the character set that it names (klingon)",
    ),
    "a codec that is no character set": (
        FROM + b"Content-Type: text/plain; charset=punycode\n\nhello-",
        "hello-",
        "text is not in the character set that it names (punycode)",
    ),
    "escapes for a character set": (
        FROM + b"Content-Type: text/plain; charset=unicode_escape\n\n\\d\\ud800",
        "\\d\\ud800",
        "text is not in the character set that it names (unicode_escape)",
    ),
    "bytes of another character set": (
        FROM + b"Content-Type: text/plain; charset=utf-8\n\nGr\xfcn",
        "Gr\ufffdn",
        "bytes that are not utf-8 were replaced",
    ),
    "bytes of no named character set": (FROM + b"\nGr\xfcn", "Grün", "bytes that are not UTF-8 were replaced"),
    "surrogates": (
        FROM + b"Content-Type: text/plain; charset=utf-7\n\na+2AA-b",
        "a\ufffdb",
        "bytes that are no text were replaced",
    ),
    "null bytes": (FROM + b"\na\0b", "ab", "control characters were taken out"),
    "an unknown transfer encoding": (
        FROM + b"Content-Transfer-Encoding: x-none\n\nhello",
        "hello",
        "a transfer encoding is not known",
    ),
    "base64 without its end": (FROM + b"Content-Transfer-Encoding: base64\n\naGVsbG8hI", "hello!", "base64 is cut off"),
    "base64 after its end": (
        FROM + b"Content-Transfer-Encoding: base64\n\naGVsbG8=dGhlcmU=",
        "hellothere",
        "base64 goes on after its end",
    ),
    "a malformed type": (FROM + b"Content-Type: @\n\nhello", "hello", "a Content-Type is malformed"),
    "two types": (
        FROM + b"Content-Type: text/html\nContent-Type: text/plain\n\n<b>hello</b>",
        "hello",
        "Content-Type stands 2 times",
    ),
    "no end of the parts": (MULTIPART + b"--b\n\nhello", "hello", "the end of the parts is missing"),
    "no parts": (MULTIPART + b"hello", "hello", "the parts could not be told apart"),
    "no boundary": (
        FROM + b"Content-Type: multipart/mixed\n\n--b\n\nhello",
        "--b\n\nhello",
        "the parts could not be told apart",
    ),
    "parameters that are none": (
        FROM + b"Content-Type: text/plain; a*%s*=x; charset*x'=utf-8\n\nhello" % (b"9" * 30),
        "hello",
        "",
    ),
}


@pytest.mark.parametrize("case", MENDED)
def test_what_is_mended_is_said(case: str):
    raw, text, repair = MENDED[case]
    read = Email.from_bytes(raw)
    assert read.body_text == text
    if repair:
        assert any(said.startswith(repair) for said in read.repairs)
    else:
        assert read.repairs == []
        assert read.headers.sender == "a@corp.example"


def test_headers_that_stand_twice():
    read = Email.from_bytes(FROM + b"Subject: first\nSubject: second\nDate: x\nDate: y\n\n")
    assert read.headers.subject == "first"
    assert read.repairs == ["Subject stands 2 times", "Date stands 2 times"]


@pytest.mark.parametrize(
    "filler", [b"<!--%s-->", b"<style>%s</style>", b"<i x='%s'>", b"<p>%s</p>"], ids=["comment", "style", "tag", "text"]
)
def test_a_text_is_not_pushed_out_of_sight_by_what_nobody_is_shown(filler: bytes):
    hidden = filler % (b" " * 1_500_000)
    assert Email.from_bytes(FROM + b"Content-Type: text/html\n\n" + hidden + b"Pay now.").body_text == "Pay now."


def test_a_plain_text_is_not_pushed_out_of_sight_by_blanks():
    assert Email.from_bytes(FROM + b"\nHello" + b" \n" * 240_000 + b"Pay now.").body_text == "Hello\n\nPay now."


def test_a_limit_that_cuts_a_character_leaves_it_out():
    raw = FROM + b"\n" + b"a" + "€".encode() * 1_000_000
    assert Email.from_bytes(raw).body_text == "a" + "€" * (MAX_TEXT - 1)


@pytest.mark.parametrize(
    "written",
    [
        "a@x.example",
        "Ann <a@x.example>",
        '"Example, Ann" <a@x.example>, b@x.example',
        'Ann "The Boss" Example <a@x.example>, "B \\"b\\"" <b@x.example>',
    ],
)
def test_the_loose_reading_agrees_with_the_policy_on_what_is_well_formed(written: str):
    read = Email.from_bytes(f"From: {written}\n\n".encode())
    assert read.repairs == []
    assert read_loosely(written) == [(box.display_name, box.address) for box in read.headers.from_]


# --- what is large costs little --------------------------------------------------------------------------------------


def nested(depth: int) -> bytes:
    opening = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(depth))
    return FROM + opening + b"\nthe innermost text"


LARGE: dict[str, Callable[[], bytes]] = {
    "parts in parts, 1,000 deep": lambda: nested(1_000),
    "mails in mails, 1,000 deep": lambda: FROM + b"Content-Type: message/rfc822\n\n" * 1_000 + b"x" * 10 * MEGABYTE,
    "a million parts": lambda: MULTIPART + b"--b\n\nx\n" * MEGABYTE,
    "boundaries between carriage returns": lambda: MULTIPART + b"\r--b" * (2 * MEGABYTE),
    "almost boundaries, twenty times": lambda: MULTIPART.join([b""] * 21) + b"\n--bX" * (2 * MEGABYTE),
    "a tag without end": lambda: FROM + b"Content-Type: text/html\n\n<" + b"a" * 2 * MEGABYTE,
    "tags only": lambda: FROM + b"Content-Type: text/html\n\n" + b"<p>" * MEGABYTE,
    "quotes in tags": lambda: FROM + b"Content-Type: text/html\n\n" + b"<a \"<a '" * (MEGABYTE // 4),
    "comments in comments": lambda: FROM + b"Content-Type: text/html\n\n" + b"<!--" * MEGABYTE,
    "blanks": lambda: FROM + b"\n" + b" " * 10 * MEGABYTE,
    "padding": lambda: FROM + b"Content-Transfer-Encoding: base64\n\n" + b"YQ==" * (2 * MEGABYTE),
    "punycode": lambda: FROM + b"Content-Type: text/plain; charset=punycode\n\n" + b"a-9" * (3 * MEGABYTE),
    "a sender of quotes": lambda: b"From: " + b'"' * 10 * MEGABYTE,
    "a sender of escapes": lambda: b"From: " + b'"\\' * (5 * MEGABYTE),
    "a thousand senders": lambda: (b"From: " + b'"' * 900 + b"\n") * 1_000,
    "words": lambda: b"Subject: " + b"=?gb18030?b?YWFhYQ?= " * MEGABYTE,
    "folded lines": lambda: b"Subject: " + b"\n  \t x" * MEGABYTE,
    "headers": lambda: b"X: \n" * (2 * MEGABYTE),
    "lines that are no headers": lambda: b"XXXX\n" * (2 * MEGABYTE),
    "parameters": lambda: FROM + b"Content-Type: multipart/mixed; " + b';a="' * (2 * MEGABYTE),
    "parameters of a thousand parts": lambda: (
        MULTIPART + (b"--b\nContent-Type: text/plain" + b";a*0*=x" * 1_000 + b"\n\n") * 1_000
    ),
    "results": lambda: b"Authentication-Results: " + b'"\\(' * MEGABYTE,
    "more than is read": lambda: FROM + b"\n" + b"x" * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_mails_take_seconds_at_most(case: str):
    began = time.process_time()
    read = Email.from_bytes(LARGE[case]())
    _ = read.headers.authentication
    sent = read.model_dump_json()
    assert time.process_time() - began < 5
    assert len(sent) < 3 * MEGABYTE
    assert read.repairs


@pytest.mark.parametrize("case", ["a million parts", "quotes in tags", "padding", "headers"])
def test_large_mails_take_little_more_memory_than_their_own_size(case: str):
    tracemalloc.start()
    try:
        Email.from_bytes(LARGE[case]())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * MEGABYTE
