"""Where a secret of Amazon RDS's shape leads, and the certificates that a connection there is checked by."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import pytest
from cryptography import x509
from psycopg.conninfo import conninfo_to_dict

from knowledge.db.address import AMAZON_ROOTS, address_of

SECRET = {"username": "knowledge", "password": "it's \\ secret", "host": "db.example.org"}
ROOTS = x509.load_pem_x509_certificates(AMAZON_ROOTS.read_bytes())


def names(certificate: x509.Certificate) -> dict[str, str]:
    return {attribute.rfc4514_attribute_name: str(attribute.value) for attribute in certificate.subject}


def test_parts_become_an_address_that_checks_the_server() -> None:
    assert conninfo_to_dict(address_of(SECRET)) == {
        "host": "db.example.org",
        "port": "5432",
        "dbname": "knowledge",
        "user": "knowledge",
        "password": "it's \\ secret",
        "sslmode": "verify-full",
        "sslrootcert": certifi.where(),
    }


@pytest.mark.parametrize(
    "host", ["spot.cluster-abc.eu-central-1.rds.amazonaws.com", "spot.proxy-abc.cn-north-1.rds.amazonaws.com.cn"]
)
def test_amazon_rds_is_checked_by_amazons_roots(host: str) -> None:
    assert conninfo_to_dict(address_of(SECRET | {"host": host}))["sslrootcert"] == str(AMAZON_ROOTS)


def test_a_host_that_only_looks_like_amazons_is_not() -> None:
    assert "amazon" not in address_of(SECRET | {"host": "rds.amazonaws.com.example.org"}).replace("rds.amazon", "")


def test_a_secret_may_name_the_roots_of_its_own_authority() -> None:
    parts = conninfo_to_dict(address_of(SECRET | {"sslrootcert": "/opt/company.pem", "port": 6432, "dbname": "k"}))
    assert (parts["sslrootcert"], parts["port"], parts["dbname"]) == ("/opt/company.pem", "6432", "k")


@pytest.mark.parametrize("missing", ["username", "password", "host"])
def test_a_missing_part_is_named(missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        address_of({name: value for name, value in SECRET.items() if name != missing})


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: names(root)["CN"])
def test_each_root_is_amazons_signed_by_itself_and_valid_for_years(root: x509.Certificate) -> None:
    root.verify_directly_issued_by(root)
    assert names(root)["O"] in ("Amazon Web Services, Inc.", "Amazon")
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert root.not_valid_after_utc > datetime.now(UTC) + timedelta(days=1000)


def test_regions_have_three_roots_each_and_proxies_those_that_browsers_trust() -> None:
    frankfurt = sorted(names(root)["CN"] for root in ROOTS if "eu-central-1" in names(root)["CN"])
    assert frankfurt == [f"Amazon RDS eu-central-1 Root CA {key} G1" for key in ("ECC384", "RSA2048", "RSA4096")]
    assert len({names(root)["CN"] for root in ROOTS}) == len(ROOTS) == 85
    with warnings.catch_warnings(action="ignore"):  # of certificates that browsers still trust
        trusted = x509.load_pem_x509_certificates(Path(certifi.where()).read_bytes())
    of_acm = {root for root in ROOTS if names(root)["O"] == "Amazon"}
    assert len(of_acm) == 4
    assert of_acm <= set(trusted)
