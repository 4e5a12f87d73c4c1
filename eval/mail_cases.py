"""Mails made by rule from a directory: impersonations of its people, genuine mails of theirs, and mails of strangers.

Everything is chosen by chance from a seed and is the same each time. Half of the people and half of the texts are for
development; what is reported is made of the other half.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr
from typing import Literal, NamedTuple

from eval.mail_texts import Text, texts
from spot_sdk.documents import KnowledgeDocument

Split = Literal["development", "held-out"]
Kind = Literal["impersonation", "genuine", "stranger", "undecidable"]
"""Undecidable: somebody who is really called like an executive writes as an impersonator would."""

GATEWAY = "mx1"
_FREEMAIL = ("gmail.com", "outlook.com", "gmx.de", "yahoo.com", "proton.me", "icloud.com")
_FIRMS = (
    "cranmore-freight.example",
    "bellweather.example",
    "hafen-kontor.invalid",
    "suppenpost.test",
    "wohnbrief.invalid",
    "lindenhof-schule.example",
    "tidewater-labs.test",
    "ortega-legal.example",
)
_SENDERS = ("mailing-service.example", "bounce.newsletter-house.example", "post-relay.test")
_OTHER_GIVEN = ("Aoife", "Bartholomew", "Ndidi", "Yevgenia", "Paulo", "Hans-Jürgen", "Siobhan", "Takumi", "Leocadia")
_OTHER_SURNAMES = (
    "Cranmore",
    "Quist",
    "Okonjo-Falk",
    "Tschernow",
    "Figueiredo",
    "Mühlbauer",
    "Gallowglass",
    "Morikawa",
    "Wrzesniewska",
    "Abramsky",
    "Barrientos",
    "Oyelaran",
)
_HOMOGLYPHS = (("a", "а"), ("e", "е"), ("o", "о"), ("p", "р"), ("c", "с"), ("x", "х"), ("i", "і"), ("o", "ο"))  # noqa: RUF100
_LOOK_ALIKE = (("m", "rn"), ("l", "1"), ("o", "0"), ("i", "1"), ("w", "vv"), ("d", "cl"))
_ADDED = ("pay", "group", "secure", "mail", "payments", "office", "hr", "billing")
_ENDINGS = ("co", "net", "test", "invalid", "org", "info")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Person(NamedTuple):
    """Somebody of the directory, as far as mails need it."""

    name: str
    address: str
    is_executive: bool

    @property
    def local(self) -> str:
        return self.address.partition("@")[0]

    @property
    def domain(self) -> str:
        return self.address.partition("@")[2]


class Case(NamedTuple):
    """A mail and the class it is of."""

    name: str
    kind: Kind
    eml: bytes


class Maker:
    """Makes the mails of one split of a directory."""

    def __init__(self, documents: Sequence[KnowledgeDocument], split: Split, seed: int) -> None:
        self._chance = random.Random(f"{seed} {split}")
        self._everybody = list(people_of(documents))
        place = 0 if split == "development" else 1
        executives = [person for person in self._everybody if person.is_executive]
        others = [person for person in self._everybody if not person.is_executive]
        self._executives = executives[place::2]
        self._people = self._executives + others[place::2]
        self._hostile, self._genuine, self._strange = (
            texts(kind)[place::2] for kind in ("hostile", "genuine", "strangers")
        )

    def cases(self, count: int) -> Iterator[Case]:
        """``count`` mails of each class."""
        for name, (kind, make) in self._classes().items():
            for _ in range(count):
                yield Case(name, kind, make())

    def _classes(self) -> dict[str, tuple[Kind, Callable[[], bytes]]]:
        return {
            "executive on freemail": ("impersonation", self._executive_on_freemail),
            "one letter of the address": ("impersonation", self._one_letter),
            "look-alike domain": ("impersonation", self._lookalike_domain),
            "homoglyphs": ("impersonation", self._homoglyphs),
            "Reply-To elsewhere": ("impersonation", self._reply_to_elsewhere),
            "genuine": ("genuine", self._from_colleague),
            "strangers": ("stranger", self._from_stranger),
            "namesakes of employees": ("stranger", self._from_namesake),
            "namesakes of executives": ("undecidable", self._from_executive_namesake),
        }

    # --- impersonations --------------------------------------------------------------------------------------------

    def _executive_on_freemail(self) -> bytes:
        person = self._chance.choice(self._executives)
        local = self._chance.choice(
            (
                _plain(person.name).replace(" ", "."),
                f"{person.local}.ceo",
                f"office{self._chance.randrange(1000)}",
                f"{_plain(person.name).split()[-1]}{self._chance.randrange(100)}",
            )
        )
        return self._mail(self._claimed(person.name), f"{local}@{self._chance.choice(_FREEMAIL)}", self._hostile)

    def _one_letter(self) -> bytes:
        """In the local part, which forges our own domain, or in the name of the domain, which is then the forger's."""
        person = self._somebody()
        if self._chance.random() < 0.5:
            taken = {other.address for other in self._everybody}
            address = person.address
            while address in taken:
                address = f"{self._slip(person.local)}@{person.domain}"
            return self._mail(self._shown(person), address, self._hostile, passes=False)
        stem, _, ending = person.domain.partition(".")
        return self._mail(self._shown(person), f"{person.local}@{self._slip(stem)}.{ending}", self._hostile)

    def _lookalike_domain(self) -> bytes:
        person = self._somebody()
        stem, _, ending = person.domain.rpartition(".")
        word = self._chance.choice(_ADDED)
        domain = self._chance.choice(
            (
                f"{stem}-{word}.{ending}",
                f"{word}-{stem}.{ending}",
                f"{stem}{word}.{ending}",
                f"{stem}.{self._chance.choice([other for other in _ENDINGS if other != ending])}",
                f"{stem}.{ending}.{word}-desk.test",
                f"{self._doubled(stem)}.{ending}",
            )
        )
        local = self._chance.choice((person.local, "accounts", "it-support"))
        name = person.name if local == person.local else local.replace("-", " ").title()
        return self._mail(name, f"{local}@{domain}", self._hostile)

    def _homoglyphs(self) -> bytes:
        person = self._somebody()
        stem, _, ending = person.domain.rpartition(".")
        pairs = [pair for pair in (*_HOMOGLYPHS, *_LOOK_ALIKE) if pair[0] in stem]
        letter, imitation = self._chance.choice(pairs)
        stem = stem.replace(letter, imitation, 1)
        if not stem.isascii():
            stem = f"xn--{stem.encode('punycode').decode()}"
        return self._mail(self._shown(person), f"{person.local}@{stem}.{ending}", self._hostile)

    def _reply_to_elsewhere(self) -> bytes:
        person = self._somebody()
        elsewhere = self._chance.choice((*_FREEMAIL, "quick-answers.test", "mobile-office.example"))
        local = self._chance.choice((person.local, f"{person.local}.private", f"office{self._chance.randrange(100)}"))
        return self._mail(
            person.name,
            person.address,
            self._hostile,
            passes=self._chance.choice((True, False)),
            reply_to=f"{local}@{elsewhere}",
        )

    # --- and none --------------------------------------------------------------------------------------------------

    def _from_colleague(self) -> bytes:
        person = self._somebody()
        given, _, family = person.name.rpartition(" ")
        name = self._chance.choice(
            (person.name, person.name, f"{family}, {given}", person.name.upper(), f"{person.name} (Halifax)", "")
        )
        address = self._chance.choice((person.address, person.address, person.address.title()))
        colleague = self._chance.choice(self._everybody)
        reply_to = self._chance.choice((None, None, None, colleague.address, person.address))
        envelope = self._chance.choice((None, None, None, f"bounce-{self._chance.randrange(9999)}@{_SENDERS[0]}"))
        passes = self._chance.choice((True, True, True, None)) if envelope is None else True
        return self._mail(name, address, self._genuine, passes=passes, reply_to=reply_to, envelope=envelope)

    def _from_stranger(self) -> bytes:
        """Names of their own, or the given name of one of ours with another surname, or the other way round."""
        person = self._somebody()
        given, surname = self._chance.choice(_OTHER_GIVEN), self._chance.choice(_OTHER_SURNAMES)
        name = self._chance.choice(
            (
                f"{given} {surname}",
                f"{person.name.split()[0]} {surname}",
                f"{given} {person.name.split()[-1]}",
                "",
                "Customer Service",
            )
        )
        address = self._strange_address(name)
        reply_to = self._chance.choice((None, None, None, f"answers@{self._chance.choice(_FIRMS)}"))
        envelope = self._chance.choice((None, None, f"bounce-{self._chance.randrange(9999)}@{_SENDERS[1]}"))
        return self._mail(
            name,
            address,
            self._strange,
            reply_to=reply_to,
            envelope=envelope,
            passes=self._chance.choice((True, True, True, None, False)),
        )

    def _from_namesake(self) -> bytes:
        person = self._chance.choice([one for one in self._people if not one.is_executive])
        return self._mail(person.name, self._strange_address(person.name), self._strange)

    def _from_executive_namesake(self) -> bytes:
        person = self._chance.choice(self._executives)
        return self._mail(person.name, self._strange_address(person.name), self._strange)

    # --- parts -----------------------------------------------------------------------------------------------------

    def _somebody(self) -> Person:
        return self._chance.choice(self._people)

    def _claimed(self, name: str) -> str:
        """A name as forgers write it who want it to be read as that person's."""
        given, _, family = name.rpartition(" ")
        return self._chance.choice(
            (
                name,
                name,
                name.upper(),
                f"{family}, {given}",
                f"{name} (mobile)",
                f"{name} | Executive Office",
                f"CEO {name}",
                f"{given} J. {family}",
                _with_homoglyph(name),
            )
        )

    def _shown(self, person: Person) -> str:
        """The display name of somebody who relies on the address."""
        return self._chance.choice((person.name, person.name, ""))

    def _strange_address(self, name: str) -> str:
        local = _plain(name).replace(" ", ".") or f"info{self._chance.randrange(100)}"
        return f"{local}@{self._chance.choice((*_FIRMS, *_FREEMAIL))}"

    def _slip(self, text: str) -> str:
        """Two neighbours swapped, or one letter replaced."""
        if self._chance.random() < 0.5:
            places = [n for n in range(len(text) - 1) if text[n] != text[n + 1] and text[n : n + 2].isalpha()]
            place = self._chance.choice(places)
            return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
        place = self._chance.choice([n for n in range(len(text)) if text[n].isalpha()])
        letter = self._chance.choice([letter for letter in _LETTERS if letter != text[place]])
        return text[:place] + letter + text[place + 1 :]

    def _doubled(self, text: str) -> str:
        place = self._chance.randrange(len(text))
        return text[:place] + text[place] + text[place:]

    def _mail(
        self,
        name: str,
        address: str,
        texts: Sequence[Text],
        *,
        passes: bool | None = True,
        reply_to: str | None = None,
        envelope: str | None = None,
    ) -> bytes:
        """``passes``: whether the gateway could authenticate the sender's domain; None where it has not looked.

        Half of those that fail come without a word of the gateway, as in a company whose gateway says nothing.
        """
        to = self._chance.choice(self._everybody)
        text = self._chance.choice(texts)
        mail = EmailMessage(policy=SMTP)
        domain = address.partition("@")[2].lower()
        mail["Return-Path"] = (
            f"<{envelope or (f'x{self._chance.randrange(99)}@bulk.invalid' if passes is False else address)}>"
        )
        if passes or (passes is False and self._chance.random() < 0.5):
            result, alignment = ("pass", domain) if passes else ("fail", "bulk.invalid")
            mail["Authentication-Results"] = (
                f"{GATEWAY}.{to.domain}; dkim={'pass' if passes else 'none'} header.d={domain}; "
                f"spf={result} smtp.mailfrom={alignment}; dmarc={result} header.from={domain}"
            )
        mail["From"] = formataddr((name, address)) if name else address
        if reply_to:
            mail["Reply-To"] = reply_to
        mail["To"] = formataddr((to.name, to.address))
        mail["Subject"] = text.subject
        mail["Date"] = "Mon, 06 Apr 2026 10:26:39 -0300"
        mail["Message-ID"] = f"<{self._chance.getrandbits(64):x}@{domain}>"
        mail.set_content(text.body.format(to=to.name.split()[0], name=name or "The team"))
        return mail.as_bytes()


def people_of(documents: Sequence[KnowledgeDocument]) -> Iterator[Person]:
    """Who has a name and an address among the employees."""
    for document in documents:
        name, address = document.metadata.get("name"), document.metadata.get("email")
        if "employee" in document.tags and isinstance(name, str) and isinstance(address, str) and " " in name:
            yield Person(name, address, "executive" in document.tags)


def _with_homoglyph(name: str) -> str:
    letter, imitation = next((pair for pair in _HOMOGLYPHS if pair[0] in name), ("", ""))
    return name.replace(letter, imitation, 1) if letter else name


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
