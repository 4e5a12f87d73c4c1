"""Mails of real shapes, mutated: whatever comes out can be stored, sent and shown, and nothing is raised.

Some hundred inputs in every run of the tests, 100,000 by ``make fuzz-mail``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spot_sdk.email import Email
from spot_sdk.email.parsing import MAX_ATTACHMENTS, MAX_TEXT
from spot_sdk.email.text import MAX_REPAIRS

INPUTS = int(os.environ.get("MAIL_FUZZ_INPUTS", "300"))

MAILS = Path(__file__).parents[3] / "examples" / "company" / "mails"

BUILT = b"""\
Return-Path: <bounce+1=2@list.example>
Received: from [192.0.2.1] (helo=x) by mx.corp.example with ESMTPS id 1;
\tTue, 10 Mar 2026 20:15:14 +0000
Authentication-Results: mx.corp.example; dkim=pass (a "b" (c)) header.d=x.example; spf=fail smtp.mailfrom=x@x.example
From: =?iso-8859-1?Q?Th=E9a_=22M=22?= =?utf-8?B?w6kgTQ==?= <t.m@xn--mnchen-3ya.example>, "Doe, Jo" <jo@x.example>
Reply-To: Team: a@x.example, "b c"@x.example;
To: undisclosed-recipients:;
Cc: jo@x.example (Jo (CFO) Doe), @a,@b:c@x.example
Subject: =?gb18030?b?xOO6wyzKwL3n?= and =?utf-8?Q?more=?=
Date: Tue, 10 Mar 2026 20:15:12 +0000
Message-ID: <1@x.example>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="outer =_1"

--outer =_1
Content-Type: multipart/alternative; boundary=inner

--inner
Content-Type: text/plain; charset=iso-2022-jp; format=flowed
Content-Transfer-Encoding: 7bit

\x1b$B$3$s$K$A$O\x1b(B
--inner
Content-Type: text/html; charset="utf-16"
Content-Transfer-Encoding: base64

//48AHAAPgBQAGEAeQAgAG4AbwB3ADwALwBwAD4A
--inner--
--outer =_1
Content-Type: message/rfc822

From: <>
Content-Type: text/html; charset=windows-1252
Content-Transfer-Encoding: quoted-printable

<p title=3D"a">=93Hi=94 &amp; &#128512;<!-- no --><br>=
there</p>
--outer =_1
Content-Type: application/pdf; name*0*=utf-8'de'%E2%82%AC; name*1="a.pdf"
Content-Disposition: attachment; filename="=?utf-8?Q?=E2=82=AC?=.pdf"
Content-Transfer-Encoding: base64

JVBERi0=
--outer =_1--
"""

SEEDS = [BUILT, BUILT.replace(b"\n", b"\r\n"), *(path.read_bytes() for path in sorted(MAILS.glob("*.eml")))]

FRAGMENTS = [
    *(b"\0", b"\r", b"\n", b"\r\n\r\n", b" ", b"\t", b"\n ", b"\x1b", b"\x80", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3"),
    *(b'"', b"\\", b"(", b")", b"<", b">", b",", b";", b":", b"@", b"=", b"?", b"[", b"]", b"'", b"%", b"*", b"&"),
    *(
        b"=?utf-8?Q?=C3?=",
        b"=?utf-8?B?w?=",
        b"=?punycode?Q?a-9?=",
        b"=?x?q??=",
        b"=?utf-16?B?2AA=?=",
        b"=?unicode_escape?q?=5Cd?=",
    ),
    *(
        b"charset=",
        b"charset=punycode",
        b"charset=idna",
        b"charset=unicode_escape",
        b"charset=undefined",
        b"charset=zip",
    ),
    *(
        b"charset=utf-7",
        b"charset=utf-16",
        b"charset=hz",
        b"charset=iso-2022-kr",
        b"charset=\xff",
        b"charset=" + b"x" * 70,
    ),
    *(b"charset*0*=''", b"name*1*=%ff", b"filename*=utf-8'%00", b"boundary=", b'boundary="', b"boundary=inner"),
    *(
        b"base64",
        b"quoted-printable",
        b"x-uuencode",
        b"multipart/mixed",
        b"message/rfc822",
        b"text/html",
        b"text/",
        b"/",
    ),
    *(
        b"\n--inner\n",
        b"\n--inner--\n",
        b"\n--outer =_1\n",
        b"--",
        b"From: a@b\n",
        b"\nFrom: ",
        b"\nContent-Type: ",
        b"xn--",
    ),
    *(
        b"<!--",
        b"-->",
        b"<script>",
        b"</script",
        b"<a '",
        b"&#xd800;",
        b"&#0;",
        b"&notit;",
        b"+2AA-",
        b"=\n",
        b"=ED=A0=80",
    ),
    *(b"dkim=pass;", b"((((((((", b"<" * 50, b"(" * 300, b'"\\' * 100, b"=?a?q?" * 50, b"a@b," * 300),
]

Operation = Callable[[bytes, int, int, bytes], bytes]
"""Makes another mail of one, two places in it in their order, and a fragment."""


def insert(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[:start] + fragment + mail[start:]


def replace(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[:start] + fragment + mail[start + len(fragment) :]


def remove(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[:start] + mail[end:]


def repeat(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[:end] + mail[start:]


def replace_a_value(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    """From the next colon or equals sign to the end of its line."""
    at = min((place for mark in (b":", b"=") if (place := mail.find(mark, start)) != -1), default=start)
    line_end = mail.find(b"\n", at)
    return mail[: at + 1] + fragment + (mail[line_end:] if line_end != -1 else b"")


def repeat_a_line(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    begin, close = mail.rfind(b"\n", 0, start) + 1, mail.find(b"\n", start) + 1
    return mail[:begin] + mail[begin:close] + fragment + mail[begin:]


def remove_a_line(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[: mail.rfind(b"\n", 0, start) + 1] + mail[mail.find(b"\n", start) + 1 :]


def put_another_in(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[:start] + BUILT + fragment + mail[end:]


def other_line_ends(mail: bytes, start: int, end: int, fragment: bytes) -> bytes:
    return mail[:start] + mail[start:end].replace(b"\n", b"\r") + mail[end:]


OPERATIONS: list[Operation] = [
    *(insert, insert, replace, remove, repeat, replace_a_value, replace_a_value),
    *(repeat_a_line, remove_a_line, put_another_in, other_line_ends),
]

places = st.integers(0, 9_999)
mutations = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), places, places, st.sampled_from(FRAGMENTS) | st.binary(max_size=12)),
    max_size=12,
)


def mutated(mail: bytes, changes: list[tuple[Operation, int, int, bytes]]) -> bytes:
    for operation, one, other, fragment in changes:
        start, end = sorted((len(mail) * one // 10_000, len(mail) * other // 10_000))
        mail = operation(mail, start, end, fragment)
    return mail


def check(raw: bytes) -> None:
    read = Email.from_bytes(raw)
    assert Email.model_validate_json(read.model_dump_json()) == read
    assert read.headers.authentication.keys() <= {"spf", "dkim", "dmarc", "arc", "compauth"}
    for box in (*read.headers.from_, *read.headers.reply_to, *read.headers.to, *read.headers.cc):
        assert f"{box} {box.unicode_domain}".encode()
        assert box.display_name or box.address
    assert len(read.body_text) <= MAX_TEXT
    assert len(read.attachments) <= MAX_ATTACHMENTS
    assert len(read.repairs) <= MAX_REPAIRS
    assert "\0" not in read.body_text


@settings(
    max_examples=INPUTS, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example]
)
@given(st.sampled_from(SEEDS), mutations)
@example(BUILT, [])
def test_a_mutated_mail_raises_nothing_and_can_be_stored(seed: bytes, changes):
    check(mutated(seed, changes))


@settings(max_examples=max(50, INPUTS // 20), deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_at_all(raw: bytes):
    check(raw)


def test_the_built_mail_says_what_it_should():
    read = Email.from_bytes(BUILT)
    assert [str(box) for box in read.headers.from_] == [
        'Théa "M"é M <t.m@xn--mnchen-3ya.example>',
        "Doe, Jo <jo@x.example>",
    ]
    assert read.headers.subject == "你好,世界 and more"
    assert read.body_text == "Pay now\n“Hi” & 😀\nthere\n\nこんにちは"
    assert [attachment.name for attachment in read.attachments] == ["€.pdf"]
