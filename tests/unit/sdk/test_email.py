"""What a mail says, read from bytes: headers, addresses, text and the names of attachments."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from spot_sdk.documents import RetrievalLimits
from spot_sdk.email import Attachment, Email, EmailHeaders, Mailbox


def mail(headers: str = "", body: str = "", *, sender: str = "From: a@corp.example") -> Email:
    lines = [line for line in (sender, headers) if line]
    return Email.from_bytes("\r\n".join([*lines, "", body]).encode("utf-8", "surrogateescape"))


def multipart(*parts: str, kind: str = "mixed", end: str = "--edge--") -> Email:
    body = "".join(f"--edge\n{part}\n" for part in parts)
    return mail(f'Content-Type: multipart/{kind}; boundary="edge"', f"a preamble\n{body}{end}\n")


# --- headers ---------------------------------------------------------------------------------------------------------


def test_the_headers_of_an_ordinary_mail():
    headers = mail(
        "Return-Path: <bounce@sender.example>\r\n"
        "Received: from a by b;\r\n\tTue, 10 Mar 2026\r\nReceived: from c by a\r\n"
        "Reply-To: Box <box@else.example>\r\nTo: b@corp.example, Cé <c@corp.example>\r\nCc: d@corp.example\r\n"
        "Subject: =?utf-8?B?w4ljb2xl?= open\r\nDate: Tue, 10 Mar 2026 20:15:12 +0000\r\nMessage-ID: <1@sender.example>",
        sender="From: Ann Example <ann@sender.example>",
    ).headers
    assert headers == EmailHeaders(
        from_=[Mailbox(display_name="Ann Example", address="ann@sender.example")],
        reply_to=[Mailbox(display_name="Box", address="box@else.example")],
        return_path="bounce@sender.example",
        to=[Mailbox(address="b@corp.example"), Mailbox(display_name="Cé", address="c@corp.example")],
        cc=[Mailbox(address="d@corp.example")],
        subject="École open",
        date="Tue, 10 Mar 2026 20:15:12 +0000",
        message_id="<1@sender.example>",
        received=["from a by b; Tue, 10 Mar 2026", "from c by a"],
    )
    assert headers.sender == "ann@sender.example"


SENDERS = {
    "ann@x.example": [("", "ann@x.example")],
    '"Example, Ann" <ann@x.example>': [("Example, Ann", "ann@x.example")],
    "Example, Ann <ann@x.example>": [("Example, Ann", "ann@x.example")],
    "ann@x.example (Ann Example)": [("Ann Example", "ann@x.example")],
    '"ceo@corp.example" <x@evil.example>': [("ceo@corp.example", "x@evil.example")],
    "ceo@corp.example <x@evil.example>": [("ceo@corp.example", "x@evil.example")],
    "<ceo@corp.example> <x@evil.example>": [("", "ceo@corp.example"), ("", "x@evil.example")],
    '"Ann <ceo@corp.example>" <x@evil.example>': [("Ann <ceo@corp.example>", "x@evil.example")],
    "=?utf-8?Q?Ann=2C_=22ceo=40corp.example=22?= <x@evil.example>": [('Ann, "ceo@corp.example"', "x@evil.example")],
    '"=?utf-8?B?QW5u?=" <x@evil.example>': [("Ann", "x@evil.example")],
    "=?utf-8?Q?=C3?= =?utf-8?Q?=89va?= <eva@x.example>": [("Éva", "eva@x.example")],
    "=?nothing?Q?Ann?= <ann@x.example>": [("Ann", "ann@x.example")],
    "=?utf-8?B?QW5?= <ann@x.example>": [("An", "ann@x.example")],
    "Board: ann@x.example, Bob <bob@x.example>;": [("", "ann@x.example"), ("Bob", "bob@x.example")],
    "ann@x.example, x@evil.example": [("", "ann@x.example"), ("", "x@evil.example")],
    "Ann <ann@x.example": [("Ann", "ann@x.example")],
    '"Ann <ann@x.example>': [("Ann", "ann@x.example")],
    "Ann <=?utf-8?Q?ann=40x.example?=>": [("Ann", "ann@x.example")],
    "Ann (CFO) <ann@x.example>": [("Ann (CFO)", "ann@x.example")],
    "ann@x.example (Example, Ann)": [("Example, Ann", "ann@x.example")],
    'Ann "The Boss" <ann@x.example> (CFO), bob@x.example (': [
        ("Ann The Boss", "ann@x.example"),
        ("", "bob@x.example"),
    ],
    "Ann <ann@ x.example>": [("Ann", "ann@x.example")],
    "Ann Example": [("Ann Example", "")],
    "Ann (": [("Ann (", "")],
    "Ann\0 <ann@x.example>": [("Ann", "ann@x.example")],
    "Ann \udce9 <ann@x.example>": [("Ann é", "ann@x.example")],
    "<>": [],
    "": [],
}


@pytest.mark.parametrize("written", SENDERS)
def test_a_sender_is_read_as_readers_do(written: str):
    found = mail(sender=f"From: {written}").headers.from_
    assert [(box.display_name, box.address) for box in found] == SENDERS[written]


def test_all_senders_of_all_from_headers_are_kept():
    read = mail("From: Ceo <x@evil.example>", sender="From: ann@x.example, bob@x.example")
    assert [box.address for box in read.headers.from_] == ["ann@x.example", "bob@x.example", "x@evil.example"]
    assert read.repairs == ["From stands 2 times"]


@pytest.mark.parametrize(
    ("address", "raw", "shown"),
    [
        ("a@Corp.Example.", "corp.example", "corp.example"),
        ("a@xn--hlmere-3nf.example", "xn--hlmere-3nf.example", "hаlmere.example"),
        ("a@sub.xn--mnchen-3ya.example", "sub.xn--mnchen-3ya.example", "sub.münchen.example"),
        ("a@xn--\udcff.example", "xn--\udcff.example", "xn--\udcff.example"),
        ("a@xn--a\u0430.example", "xn--a\u0430.example", "xn--a\u0430.example"),
        ("a@xn--ib9b.example", "xn--ib9b.example", "xn--ib9b.example"),  # half of a pair of surrogates
        ("a@xn--99999999.example", "xn--99999999.example", "xn--99999999.example"),
        ('"a@b"@c.example', "c.example", "c.example"),
        ("nobody", "", ""),
    ],
)
def test_a_domain_is_kept_as_sent_and_told_as_shown(address: str, raw: str, shown: str):
    box = Mailbox.model_construct(address=address)
    assert (box.domain, box.unicode_domain) == (raw, shown)


def test_the_half_of_a_pair_of_surrogates_is_what_punycode_can_stand_for():
    assert b"ib9b".decode("punycode") == "\ud800"


AUTHENTICATION = {
    "mx.corp.example; spf=pass smtp.mailfrom=x; dkim=none; dmarc=fail (p=reject)": {
        "spf": "pass",
        "dkim": "none",
        "dmarc": "fail",
    },
    "spf=SoftFail (sender) smtp.mailfrom=x; CompAuth=fail reason=001": {"spf": "softfail", "compauth": "fail"},
    "mx; dkim=fail header.d=list.example; dkim=pass header.d=x.example": {"dkim": "pass"},
    "mx; dkim=pass; dkim=fail": {"dkim": "pass"},
    "mx; spf=fail; spf=pass": {"spf": "fail"},
    "mx; dkim/1 = pass": {"dkim": "pass"},
    "mx; dmarc=fail (they say; dmarc=pass)": {"dmarc": "fail"},
    "mx; x=1 ((nested) ; dmarc=pass); dmarc=fail": {"dmarc": "fail"},
    'mx; spf=fail smtp.mailfrom="a;dmarc=pass;"': {"spf": "fail"},
    "mx; spf=none smtp.mailfrom=dmarc=pass": {"spf": "none"},
    "mx; none": {},
    "mx; spf=": {},
    "": {},
}


@pytest.mark.parametrize("header", AUTHENTICATION)
def test_what_the_receiving_server_found(header: str):
    read = mail(f"Authentication-Results: {header}\r\nAuthentication-Results: forged; arc=pass; dmarc=pass")
    assert read.headers.authentication == AUTHENTICATION[header]


# --- body ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        ("", "Grüße", "Grüße"),
        ("Content-Type: text/plain; charset=iso-8859-1", "Gr\udcfc\udcdfe", "Grüße"),
        ("Content-Transfer-Encoding: quoted-printable", "Gr=C3=BC=\r\n=C3=9Fe", "Grüße"),
        ("Content-Transfer-Encoding: base64", "R3LDvMOfZQ==", "Grüße"),
        ("Content-Transfer-Encoding: BASE64", "R3LDvM\r\nOf!ZQ", "Grüße"),
        ("Content-Type: text/html", "<p>Hello <b>you</b></p><p>there &amp; then</p>", "Hello you\nthere & then"),
        ("Content-Type: text/plain; name=body.txt", "shown", "shown"),
        ("Content-Type: nonsense", "shown", "shown"),
        ("Content-Type: text/plain; format=flowed; charset*=us-ascii''utf-8", "é", "é"),
    ],
)
def test_a_body_of_one_part(headers: str, body: str, text: str):
    assert mail(headers, body).body_text == text


HTML = {
    "<style>p{}</style><script>x</script>said": "said",
    "<!-- hidden --><!----><!-->said": "said",
    '<img alt="<!--">said<img alt="-->">': "said",
    "<p title='a > b'>said</p>": "said",
    "<td>a</td><td>b</td>": "a b",
    "a<br/>b<BR>c": "a\nb\nc",
    "1 < 2 &lt; 3": "1 < 2 < 3",
    "<a href='https://x.example'>said": "said",
    "said<script>never closed": "said",
    "<a said": "<a said",
    "<scripture>said": "said",
    "&#0;&#xd800;&#1;said": "\ufffd\ufffdsaid",
}


@pytest.mark.parametrize("html", HTML)
def test_html_as_text(html: str):
    assert mail("Content-Type: text/html", html).body_text == HTML[html]


def test_of_alternatives_that_say_the_same_one_is_kept():
    read = multipart("\nHello  there.", "Content-Type: text/html\n\n<p>Hello <i>there</i>.</p>", kind="alternative")
    assert read.body_text == "Hello  there."


def test_alternatives_that_differ_are_both_read():
    read = multipart("\nA harmless text.", "Content-Type: text/html\n\n<p>Pay now.</p>", kind="alternative")
    assert read.body_text == "Pay now.\n\nA harmless text."


def test_attachments_are_named_and_not_read():
    read = multipart(
        "\nSee the file.",
        'Content-Type: application/pdf; name="a.pdf"\nContent-Transfer-Encoding: base64\n\nAAAA\nAAAA',
        "Content-Disposition: attachment; filename*0*=utf-8''%c3%a9; filename*1=.html\nContent-Type: text/html\n\nx",
        'Content-Type: image/png\nContent-Disposition: inline; filename="=?utf-8?Q?=C3=A9?=.png"\n\nxyz',
        "Content-Type: text/plain\nContent-Disposition: inline; filename=note.txt\n\nShown by some.",
    )
    assert read.body_text == "See the file.\nShown by some."
    assert read.attachments == [
        Attachment(name="a.pdf", media_type="application/pdf", size=6),
        Attachment(name="é.html", media_type="text/html", size=1),
        Attachment(name="é.png", media_type="image/png", size=3),
        Attachment(name="note.txt", media_type="text/plain", size=14),
    ]
    assert read.repairs == []


def test_an_attached_mail_is_read_too():
    inner = "From: ceo@corp.example\nContent-Transfer-Encoding: base64\n\nUGF5IG5vdy4="
    assert multipart(f"Content-Type: message/rfc822\n\n{inner}").body_text == "Pay now."


# --- the model -------------------------------------------------------------------------------------------------------


def test_a_mail_travels_as_json_and_stays_the_same():
    read = mail("Subject: x\r\nReply-To: Box <b@else.example>\r\nReceived: from a", "text")
    read.retrieval_limits = RetrievalLimits(max_top_k=3)
    sent = read.model_dump_json()
    assert '"from":[{"display_name":"","address":"a@corp.example"}]' in sent
    assert Email.model_validate_json(sent) == read


def test_json_may_hold_headers_as_they_are_written():
    read = Email.model_validate_json(
        '{"headers": {"from": "=?utf-8?Q?=C3=89va?= <eva@x.example>", "to": "a@x.example, b@x.example"},'
        ' "body_text": "Pay.", "retrieval_limits": {"max_top_k": 2}}'
    )
    assert read.headers.from_ == [Mailbox(display_name="Éva", address="eva@x.example")]
    assert [box.address for box in read.headers.to] == ["a@x.example", "b@x.example"]
    assert read.retrieval_limits == RetrievalLimits(max_top_k=2)


def test_limits_that_make_no_sense_are_refused():
    with pytest.raises(ValidationError, match="max_top_k"):
        Email.model_validate({"retrieval_limits": {"max_top_k": 0}})


def test_limits_may_be_given_with_the_bytes():
    limits = RetrievalLimits(max_top_k=1)
    assert Email.from_bytes(b"", retrieval_limits=limits).retrieval_limits is limits
