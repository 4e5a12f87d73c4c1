"""Which domains imitate ours, and which are merely others."""

from __future__ import annotations

import pytest

from examples.analyzers.rules.domains import belongs_to, domain_of, imitation, readable

OURS = {"halmere.example"}


@pytest.mark.parametrize(
    ("domain", "trick"),
    [
        ("ha1mere.example", "homoglyph"),
        ("halrnere.example", "homoglyph"),
        ("hаlmere.example", "homoglyph"),  # Cyrillic a
        ("hallmere.example", "letter"),
        ("halmre.example", "letter"),
        ("hamlere.example", "letter"),
        ("halmare.example", "letter"),
        ("halmere.test", "ending"),
        ("halmere.co.uk", "ending"),
        ("halmere.example.invoice-desk.test", "subdomain"),
        ("halmere-pay.example", "word"),
        ("files-halmere.invalid", "word"),
        ("halmerepay.example", "word"),
        ("ha1mere-pay.test", "word"),
        ("halmere2.example", "letter"),
        ("halmere.support-desk.test", "word"),
    ],
)
def test_an_imitation_is_told_with_its_trick(domain: str, trick: str) -> None:
    found = imitation(domain, OURS)
    assert found is not None
    assert (found.ours, found.trick) == ("halmere.example", trick)


@pytest.mark.parametrize(
    "domain", ["halmere.example", "mail.halmere.example", "example", "hammer.example", "gmail.com", "palmera.test", ""]
)
def test_ours_and_others_imitate_nobody(domain: str) -> None:
    assert imitation(domain, OURS) is None


def test_a_short_name_is_imitated_only_where_it_is_hard_to_mistake() -> None:
    assert imitation("acme.test", {"acme.example"}) is not None
    assert imitation("acne.test", {"acme.example"}) is None
    assert imitation("acne.example", {"acme.example"}) is not None
    assert imitation("placement.example", {"acme.example"}) is None
    assert imitation("acme-pay.example", {"acme.example"}) is not None
    assert imitation("bp-pay.example", {"bp.example"}) is None


def test_punycode_is_read_and_what_is_none_stays() -> None:
    assert domain_of("a@XN--HLMERE-3NF.example.") == "hаlmere.example"
    assert imitation(domain_of("a@xn--hlmere-3nf.example"), OURS) is not None
    assert readable("xn--\u20ac.example") == "xn--\u20ac.example"
    assert domain_of("nobody") == ""


def test_a_company_with_a_country_in_its_domain_is_known_by_its_name() -> None:
    assert imitation("harbour.com", {"harbour.co.uk"}) is not None
    assert imitation("other.co.uk", {"harbour.co.uk"}) is None


def test_what_lies_below_and_above_belongs() -> None:
    assert belongs_to("mx.halmere.example", OURS)
    assert belongs_to("halmere.example", {"mail.halmere.example"})
    assert not belongs_to("halmere.example.evil.test", OURS)
    assert not belongs_to("xhalmere.example", OURS)
