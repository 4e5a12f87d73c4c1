"""Write layers/knowledge/db/amazon_roots.pem: the certificates by which connections to Amazon RDS are checked.

    python tools/rds_roots.py global-bundle.pem more.pem ...

Amazon publishes its bundle at https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem. Of whatever is read,
only roots stay: self-signed, of Amazon (RDS, or the roots of AWS Certificate Manager, which RDS Proxy has its
certificates from), for production, and valid for ten more years. They are ordered by name, so a change is a short diff.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.utils import CryptographyDeprecationWarning

ROOTS = Path(__file__).resolve().parent.parent / "layers" / "knowledge" / "db" / "amazon_roots.pem"
_NAMES = re.compile(r"Amazon RDS [a-z0-9-]+ Root CA (RSA2048|RSA4096|ECC384) G\d|Amazon Root CA \d")
_OWNERS = {"Amazon Web Services, Inc.", "Amazon"}
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def is_root_of_amazon(certificate: x509.Certificate) -> bool:
    owners = {str(it.value) for it in certificate.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)}
    if not (owners <= _OWNERS and _NAMES.fullmatch(common_name(certificate))):
        return False
    certificate.verify_directly_issued_by(certificate)
    return certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=3650)


def certificates(text: str) -> Iterable[x509.Certificate]:
    with warnings.catch_warnings(action="ignore", category=CryptographyDeprecationWarning):  # of old, expired ones
        yield from (x509.load_pem_x509_certificate(found.encode()) for found in _PEM.findall(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="+")
    found = {
        certificate.fingerprint(SHA256()): certificate
        for bundle in parser.parse_args().bundle
        for certificate in certificates(bundle.read_text(encoding="ascii"))
        if is_root_of_amazon(certificate)
    }
    ordered = sorted(found.values(), key=lambda it: (common_name(it), it.fingerprint(SHA256())))
    text = "".join(f"# {common_name(it)}\n{it.public_bytes(Encoding.PEM).decode()}" for it in ordered)
    ROOTS.write_text(text, encoding="ascii")
    print(f"{len(ordered)} roots in {ROOTS.name}")


if __name__ == "__main__":
    main()
