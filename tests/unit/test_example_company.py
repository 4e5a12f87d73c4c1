"""The example company agrees with itself: directory, handbook, mails and questions; and it names nobody real."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections import Counter
from datetime import date
from email import message_from_bytes, policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from spot_sdk.knowledge_tags import is_tag
from spot_sdk.tag_expression import parse as parse_tags

COMPANY = Path(__file__).parents[2] / "examples" / "company"
HANDBOOK = COMPANY / "handbook"
MAILS = COMPANY / "mails"

DOMAIN = "halmere.example"
RESERVED_TLDS = {"example", "test", "invalid"}
FILE_SUFFIXES = {"md", "eml", "json", "jsonl", "ldif", "pdf", "xlsx", "py"}

FILES = sorted(path.relative_to(COMPANY).as_posix() for path in COMPANY.rglob("*") if path.is_file())
PAGES = sorted(path.relative_to(HANDBOOK).as_posix() for path in HANDBOOK.rglob("*.md"))
MAIL_NAMES = sorted(path.name for path in MAILS.glob("*.eml"))

Entry = dict[str, list[str]]


# --- the directory -------------------------------------------------------------------------------------------------


@cache
def directory() -> dict[str, Entry]:
    """The entries of directory.ldif by DN, in file order; attribute names are lower-cased."""
    entries: dict[str, Entry] = {}
    text = (COMPANY / "directory.ldif").read_text("ascii").replace("\n ", "")
    for block in re.split(r"\n{2,}", text):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        entry: Entry = {}
        for line in lines:
            name, encoded, value = re.fullmatch(r"(\w+)(::?) (.+)", line).groups()  # pyright: ignore
            entry.setdefault(name.lower(), []).append(
                base64.b64decode(value, validate=True).decode() if encoded == "::" else value
            )
        (dn,) = entry.pop("dn")
        assert dn not in entries
        entries[dn] = entry
    return entries


def people() -> list[Entry]:
    return [entry for dn, entry in directory().items() if ",ou=people," in dn]


@cache
def names_by_address() -> dict[str, list[str]]:
    """Every mail address of the directory, people or not, and the names of the one who owns it."""
    return {address: entry["cn"] for entry in directory().values() for address in entry.get("mail", [])}


def test_every_entry_comes_after_its_parent_and_names_itself() -> None:
    seen: set[str] = set()
    for dn, entry in directory().items():
        rdn, _, parent = dn.partition(",")
        attribute, _, value = rdn.partition("=")
        assert value in entry[attribute]
        assert not seen or parent in seen, dn
        seen.add(dn)


def test_people_have_what_a_provider_reads() -> None:
    assert 35 <= len(people()) <= 45
    for person in people():
        assert person["objectclass"] == ["inetOrgPerson"]
        for attribute in ("uid", "sn", "givenname", "ou", "departmentnumber", "employeenumber", "l"):
            assert len(person[attribute]) == 1, person["uid"]
        assert person["cn"][0] == f"{person['givenname'][0]} {person['sn'][0]}"
        assert person["title"]
        assert all(address.endswith(f"@{DOMAIN}") for address in person["mail"])


@pytest.mark.parametrize("attribute", ["uid", "mail", "employeenumber", "telephonenumber"])
def test_what_identifies_an_entry_is_unique(attribute: str) -> None:
    values = Counter(
        value for entry in directory().values() if "objectclass" in entry for value in entry.get(attribute, [])
    )
    assert [value for value, count in values.items() if count > 1] == []


def test_managers_exist_and_every_chain_ends_at_the_ceo() -> None:
    top = [person for person in people() if "manager" not in person]
    assert [person["title"][0] for person in top] == ["Chief Executive Officer"]
    for dn, entry in directory().items():
        chain = [dn]
        while manager := directory()[chain[-1]].get("manager"):
            assert manager[0] in directory(), f"{dn} has an unknown manager"
            assert manager[0] not in chain, f"{dn} manages itself"
            chain.append(manager[0])
        if "manager" in entry:
            assert directory()[chain[-1]] is top[0]


def test_the_directory_holds_the_hard_cases() -> None:
    surnames = Counter(person["sn"][0] for person in people())
    assert max(surnames.values()) == 2
    assert sum(len(person["mail"]) == 2 for person in people()) == 1
    assert sum(len(person["title"]) > 1 for person in people()) >= 5
    assert any(len(person["cn"]) > 1 for person in people())
    assert sum(not person["cn"][0].isascii() for person in people()) >= 8
    titles = [title for person in people() for title in person["title"]]
    assert sum(title.startswith("Chief ") or title == "General Counsel" for title in titles) == 5
    assert sum("Director" in title for title in titles) >= 9
    assert any("CEO" in title and "Assistant" in title for title in titles)
    kinds = Counter(kind for entry in directory().values() for kind in entry.get("employeetype", []))
    assert kinds["shared mailbox"] >= 2
    assert kinds["service account"] >= 2
    assert all(person["employeetype"][0] in ("employee", "contractor") for person in people())


# --- the handbook --------------------------------------------------------------------------------------------------


def read_page(name: str) -> tuple[dict[str, Any], str]:
    """Front matter and body of a page."""
    _, front, body = (HANDBOOK / name).read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as renderers of Markdown commonly make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def introductions(text: str) -> list[tuple[str, str]]:
    """``Name (address)`` pairs of a text: two to four capitalised words and the address after them."""
    name = r"[^\W\d_][\w'-]*(?:\s+[^\W\d_a-z][\w'-]*){1,3}"
    pairs = re.findall(rf"({name})\s+\(([\w.+-]+@[\w.-]+\w)\)", text)
    return [(" ".join(name.split()), address) for name, address in pairs]


def test_the_handbook_has_the_expected_size() -> None:
    incidents = [name for name in PAGES if name.startswith("incidents/")]
    assert len(incidents) == 3
    assert 15 <= len(PAGES) - len(incidents) <= 20
    assert sum(len(read_page(name)[1]) > 4000 for name in PAGES) >= 5


@pytest.mark.parametrize("name", PAGES)
def test_front_matter(name: str) -> None:
    front, body = read_page(name)
    assert set(front) == {"title", "owner", "tags", "updated"}
    assert body.strip().startswith(f"# {front['title']}\n")
    assert front["owner"] in names_by_address()
    assert isinstance(front["updated"], date)
    assert all(is_tag(tag) for tag in front["tags"])
    kind = {"policy", "wiki_page", "incident_report"}.intersection(front["tags"])
    assert len(kind) == 1
    assert ("incident_report" in kind) == name.startswith("incidents/")
    assert "policy" in kind or not name.startswith("security/policies/")


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    path = HANDBOOK / name
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text("utf-8")):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.is_file(), target
        assert linked.is_relative_to(HANDBOOK), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("name", PAGES)
def test_people_on_a_page_are_those_of_the_directory(name: str) -> None:
    _, body = read_page(name)
    for person, address in introductions(body):
        if address.endswith(f"@{DOMAIN}"):
            assert any(person.endswith(known) for known in names_by_address()[address]), (person, address)
    for address in re.findall(rf"[\w.+-]+@{re.escape(DOMAIN)}", body):
        assert address in names_by_address(), address
    for person in people():
        given, surname = person["givenname"][0], person["sn"][0]
        named = [" ".join(words.split()) for words in re.findall(rf"\b{given}\s+[^\W\d_a-z][\w-]+", body)]
        assert set(named) <= {f"{given} {surname}"}, f"{named}: not in the directory"


@pytest.mark.parametrize("name", PAGES)
def test_people_are_introduced_where_a_page_first_names_them(name: str) -> None:
    _, body = read_page(name)
    known = {surname.split()[-1] for surname, _ in introductions(body)}
    for person in people():
        given, surname = person["givenname"][0], person["sn"][0]
        if re.search(rf"\b{surname}\b", body):
            assert surname in known, f"{surname} is named and never introduced"
        if first := re.search(rf"\b{given}\s+{surname}\b", body):
            rest = body[first.end() :]
            assert re.match(rf"\s+\([\w.]+@{re.escape(DOMAIN)}\)", rest), (
                f"{given} {surname}: introduce at first mention"
            )


@pytest.mark.parametrize("name", PAGES)
def test_phone_numbers_on_a_page_are_in_the_directory(name: str) -> None:
    numbers = {number for entry in directory().values() for number in entry.get("telephonenumber", [])}
    assert set(re.findall(r"\+\d[\d ]+\d", read_page(name)[1])) <= numbers


# --- the mails -----------------------------------------------------------------------------------------------------


def read_mail(name: str) -> EmailMessage:
    message = message_from_bytes((MAILS / name).read_bytes(), policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


@cache
def labels() -> dict[str, dict[str, str | None]]:
    return json.loads((MAILS / "LABELS.json").read_text("utf-8"))


def sender(mail: EmailMessage) -> Address:
    (address,) = mail["From"].addresses
    return address


def by_technique(technique: str) -> EmailMessage:
    (name,) = [name for name, label in labels().items() if label["technique"] == technique]
    return read_mail(name)


@pytest.mark.parametrize("name", MAIL_NAMES)
def test_mails_parse_without_repair(name: str) -> None:
    mail = read_mail(name)
    assert [defect for part in mail.walk() for defect in part.defects] == []
    assert [header for header, value in mail.items() if value.defects] == []
    for header in ("Return-Path", "Authentication-Results", "Date", "From", "To", "Subject", "Message-ID"):
        assert len(mail.get_all(header, [])) == 1, header
    body = mail.get_body(("plain",))
    assert body is not None
    assert len(body.get_content()) > 200
    for attachment in mail.iter_attachments():
        assert attachment.get_content().startswith(b"%PDF-")


@pytest.mark.parametrize("name", MAIL_NAMES)
def test_the_times_of_a_mail_are_in_order(name: str) -> None:
    mail = read_mail(name)
    date_as_written = dict(mail.raw_items())["Date"]  # the parsed header would correct a wrong weekday
    stamps = [
        date_as_written,
        *(received.rpartition(";")[2].strip() for received in reversed(mail.get_all("Received"))),
    ]
    moments = [parsedate_to_datetime(stamp) for stamp in stamps]
    assert len(moments) >= 3
    assert moments == sorted(moments)
    assert [stamp[:3] for stamp in stamps] == [f"{moment:%a}" for moment in moments]


def test_message_ids_are_unique() -> None:
    ids = [read_mail(name)["Message-ID"] for name in MAIL_NAMES]
    assert len(set(ids)) == len(ids)


def test_labels_are_complete() -> None:
    assert sorted(labels()) == MAIL_NAMES
    assert 12 <= len(MAIL_NAMES) <= 16
    verdicts = Counter(label["label"] for label in labels().values())
    assert set(verdicts) == {"genuine", "phishing"}
    assert verdicts["genuine"] >= 4
    for name, label in labels().items():
        assert set(label) == {"label", "technique", "claimed_person", "explanation"}
        assert (label["technique"] is None) == (label["label"] == "genuine")
        assert label["explanation"]
        assert name.partition("-")[2].startswith("genuine") == (label["label"] == "genuine")


def test_genuine_mails_come_from_whom_they_claim_and_forged_ones_do_not() -> None:
    contacts = {address for name in PAGES for address in re.findall(r"[\w.+-]+@[\w.-]+\w", read_page(name)[1])}
    customers = {"thea.montclair@sandrift-water.example"}
    for name, label in labels().items():
        claimed, address = label["claimed_person"], sender(read_mail(name)).addr_spec
        assert claimed in contacts | customers | set(names_by_address())
        if label["label"] == "genuine":
            same_person = names_by_address().get(address, [address]) == names_by_address().get(claimed, [claimed])
            assert same_person, name
        elif label["technique"] != "reply_to_mismatch":
            assert address != claimed, name


def test_authentication_results_fit_the_label() -> None:
    for name in MAIL_NAMES:
        results = " ".join(read_mail(name)["Authentication-Results"].split())
        if labels()[name]["technique"] == "reply_to_mismatch":
            assert "spf=fail" in results
            assert "dmarc=fail" in results
        else:
            assert "spf=pass" in results
            assert "fail" not in results


@pytest.mark.parametrize(
    ("technique", "trick", "plain"),
    [
        ("lookalike_digit", "1", "l"),
        ("lookalike_rn", "rn", "m"),
        ("lookalike_extra_letter", "ll", "l"),
        ("homoglyph_idn", "а", "a"),  # Cyrillic, Latin
    ],
)
def test_look_alike_domains_differ_from_ours_by_their_trick(technique: str, trick: str, plain: str) -> None:
    domain = sender(by_technique(technique)).domain.encode("ascii").decode("idna")
    assert domain != DOMAIN
    assert domain.replace(trick, plain) == DOMAIN


def test_the_other_techniques_show_what_they_are_named_for() -> None:
    mail = by_technique("reply_to_mismatch")
    assert sender(mail).domain == DOMAIN
    assert mail["Reply-To"].addresses[0].domain != DOMAIN

    shown = re.search(r"[\w.]+@[\w.]+", sender(by_technique("display_name_address")).display_name)
    assert shown is not None
    assert shown[0] in names_by_address()

    for technique in ("executive_freemail", "payroll_change", "gift_card"):
        address = sender(by_technique(technique))
        assert address.domain in {"quickpost.example", "mailhaven.test"}
        assert any(address.display_name in names for names in names_by_address().values())

    reply = by_technique("vendor_bank_change")
    original = read_mail("03-genuine-vendor-invoice.eml")
    assert reply["In-Reply-To"] == original["Message-ID"]
    assert sender(reply).domain != sender(original).domain


# --- the questions -------------------------------------------------------------------------------------------------


def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (COMPANY / "questions.jsonl").read_text("utf-8").splitlines()]


def word_runs(text: str, length: int = 4) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[start:] for start in range(length)), strict=False))


def test_questions_name_pages_that_their_tags_admit() -> None:
    assert len(questions()) == 15
    for question in questions():
        assert set(question) == {"question", "tags", "gold"}
        expression = parse_tags(question["tags"])
        assert expression is not None
        assert question["gold"]
        for name in question["gold"]:
            front, _ = read_page(name)
            assert expression.matches(front["tags"]), (question["question"], name)


def test_questions_use_other_words_than_the_page() -> None:
    for question in questions():
        for name in question["gold"]:
            _, body = read_page(name)
            assert not word_runs(question["question"]) & word_runs(body), question["question"]


# --- nothing real --------------------------------------------------------------------------------------------------


def plain_text(name: str) -> str:
    """What a file of the example says, with mails decoded and defanged indicators made plain."""
    path = COMPANY / name
    if path.suffix == ".eml":
        mail = read_mail(path.name)
        headers = [str(value) for value in mail.values()]
        bodies = [part.get_content() for part in mail.walk() if part.get_content_maintype() == "text"]
        return "\n".join(headers + bodies)
    if path.suffix == ".ldif":
        return "\n".join(
            value for entry in directory().values() for key in entry if key != "uid" for value in entry[key]
        )
    return path.read_text("utf-8").replace("[.]", ".").replace("[@]", "@")


def domains(text: str) -> set[str]:
    """What reads as a domain name: dotted words that end in letters, but no local parts, headers' properties or DNs."""
    text = re.sub(r"\b(smtp|header)\.[a-z]+=|\buid=[\w.]+", " ", text)
    found = re.finditer(r"(?<![\w.@-])(?:[\w-]+\.)+([^\W\d_]{2,})(?![\w@-]|\.\w)|@([\w.-]+\w)", text)
    return {(match[2] or match[0]).lower() for match in found if (match[1] or "").lower() not in FILE_SUFFIXES}


def test_domains_sees_what_it_must() -> None:
    text = "mail to a.b@c.com, see www.d.org. Also https://e.io/x?y=1 (report.pdf), header.from=f.net; x@localhost."
    assert domains(text) == {"c.com", "www.d.org", "e.io", "f.net", "localhost"}


@pytest.mark.parametrize("name", FILES)
def test_only_reserved_names_and_numbers_occur(name: str) -> None:
    text = plain_text(name)
    assert {domain for domain in domains(text) if domain.rpartition(".")[2] not in RESERVED_TLDS} == set()
    for host in re.findall(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])", text):
        assert not ipaddress.ip_address(host).is_global, host
    for number in re.findall(r"\+\d[\d ]{6,}\d", text):
        assert re.fullmatch(r"\+1 (902|514) 555 01\d\d", number), number


def test_pages_write_the_domains_of_attackers_with_brackets() -> None:
    foreign = {sender(read_mail(name)).domain for name, label in labels().items() if label["label"] == "phishing"}
    for name in PAGES:
        plain = domains((HANDBOOK / name).read_text("utf-8"))
        assert not plain & (foreign - {DOMAIN}), name
