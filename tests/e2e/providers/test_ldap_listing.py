"""Listing a real directory server: the whole of it, or a failure that says why."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.providers.employee_dir.entries import DirectoryListingFailed, Entry
from examples.providers.employee_dir.ldif import read_ldif
from examples.providers.employee_dir.rules import read_rules
from examples.providers.employee_dir.settings import EXAMPLE_LDIF, PACKAGE, ldap
from examples.providers.listing import Deadline
from spot_sdk.errors import DeadlineExceeded
from tests.e2e.providers.certificates import make_certificates
from tests.e2e.providers.conftest import COMPANY, PEOPLE, public_data
from tests.e2e.providers.slapd import PASSWORD, Slapd

# What ldap3 2.9 still takes from pyasn1 when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:(tagMap|typeMap) is deprecated:DeprecationWarning")

StartSlapd = Callable[..., Slapd]


class Hook(Deadline):
    """A deadline that does something when the listing asks for its n-th page."""

    def __init__(self, page: int, action: Callable[[], object]) -> None:
        super().__init__(time.monotonic() + 60)
        object.__setattr__(self, "countdown", [page])
        object.__setattr__(self, "action", action)

    def check(self) -> None:
        self.countdown[0] -= 1
        if self.countdown[0] == 0:
            self.action()
        super().check()


def listed(server: Slapd, deadline: Deadline | None = None, **environment: str) -> list[Entry]:
    from examples.providers.employee_dir.ldap import list_ldap

    settings = ldap({**server.environment, **environment})
    attributes = read_rules(PACKAGE / "rules.yaml").wanted_attributes()
    return list_ldap(settings, attributes, deadline or Deadline.after(60))


def as_read_from(path: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """The people of an LDIF file, with the attributes that the rules ask for."""
    wanted = {name.lower() for name in read_rules(PACKAGE / "rules.yaml").wanted_attributes()}
    return {
        entry.dn: {name: values for name, values in entry.attributes.items() if name in wanted}
        for entry in read_ldif(path)
        if entry.is_person
    }


def as_listed(entries: list[Entry]) -> dict[str, dict[str, tuple[str, ...]]]:
    return {entry.dn: dict(entry.attributes) for entry in entries}


@pytest.mark.parametrize("page_size", ["1", "7", "50", "500"])
def test_the_server_and_its_export_tell_the_same(company: Slapd, page_size: str) -> None:
    assert as_listed(listed(company, EMPLOYEE_DIR_LDAP_PAGE_SIZE=page_size)) == as_read_from(EXAMPLE_LDIF)


def test_167_people_in_pages(slapd: StartSlapd) -> None:
    people = public_data("directory-pseudonymised", "people.ldif")
    server = slapd(PEOPLE, [people], limits="sizelimit size.soft=50 size.hard=50 size.prtotal=unlimited")
    entries = listed(server, EMPLOYEE_DIR_LDAP_PAGE_SIZE="50")
    assert len(entries) == 167
    assert as_listed(entries) == as_read_from(people)


@pytest.mark.parametrize("page_size", ["10", "25", "500"])
def test_a_listing_that_the_server_cuts_short_has_failed(slapd: StartSlapd, page_size: str) -> None:
    server = slapd(COMPANY, [EXAMPLE_LDIF], limits="sizelimit size.soft=25 size.hard=25 size.prtotal=25")
    with pytest.raises(DirectoryListingFailed, match=r"search ended with sizeLimitExceeded \(4\); the server cut"):
        listed(server, EMPLOYEE_DIR_LDAP_PAGE_SIZE=page_size)


@pytest.mark.parametrize(("limit", "is_whole"), [(50, True), (49, False)])
def test_a_limit_that_just_suffices_cuts_nothing(slapd: StartSlapd, limit: int, is_whole: bool) -> None:
    server = slapd(COMPANY, [EXAMPLE_LDIF], limits=f"sizelimit size={limit} size.prtotal={limit}")
    try:
        assert len(listed(server, EMPLOYEE_DIR_LDAP_PAGE_SIZE="10")) == 50
    except DirectoryListingFailed:
        assert not is_whole
    else:
        assert is_whole


def test_a_server_that_gives_smaller_pages_than_asked_for_is_read_to_the_end(slapd: StartSlapd) -> None:
    server = slapd(COMPANY, [EXAMPLE_LDIF], limits="sizelimit size.soft=25 size.hard=25 size.prtotal=unlimited")
    assert len(listed(server, EMPLOYEE_DIR_LDAP_PAGE_SIZE="500")) == 50


def test_a_server_that_allows_no_paging_has_failed(slapd: StartSlapd) -> None:
    server = slapd(COMPANY, [EXAMPLE_LDIF], limits="sizelimit size=unlimited size.prtotal=disabled")
    with pytest.raises(DirectoryListingFailed, match="search ended with"):
        listed(server)


@pytest.mark.parametrize("page", [1, 2, 4])
def test_a_server_that_dies_between_two_pages_has_failed(company: Slapd, page: int) -> None:
    with pytest.raises(DirectoryListingFailed):
        listed(company, Hook(page, company.kill), EMPLOYEE_DIR_LDAP_PAGE_SIZE="10")


def test_a_server_that_freezes_between_two_pages_has_failed(company: Slapd) -> None:
    started = time.monotonic()
    with pytest.raises(DirectoryListingFailed):
        listed(
            company,
            Hook(2, company.freeze),
            EMPLOYEE_DIR_LDAP_PAGE_SIZE="10",
            EMPLOYEE_DIR_LDAP_TIMEOUT_S="1",
        )
    assert time.monotonic() - started < 10


def test_a_listing_stops_between_pages_at_the_deadline(company: Slapd) -> None:
    deadline = Deadline.after(60)
    hook = Hook(3, lambda: object.__setattr__(hook, "at", 0.0))
    with pytest.raises(DeadlineExceeded):
        listed(company, hook, EMPLOYEE_DIR_LDAP_PAGE_SIZE="10")
    assert deadline.remaining_s > 0


@contextmanager
def cutting_proxy(port: int, after_bytes: int) -> Generator[int]:
    """A port that leads to another until the server has said so many bytes, and then to nowhere."""

    def carry(one: socket.socket, other: socket.socket, allowed: int | None) -> None:
        try:
            while piece := one.recv(65536 if allowed is None else min(65536, allowed)):
                other.sendall(piece)
                if allowed is not None:
                    allowed -= len(piece)
                    if not allowed:
                        break
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as server:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                server.connect(("127.0.0.1", port))
                there = threading.Thread(target=carry, args=(client, server, None))
                there.start()
                carry(server, client, after_bytes)
                there.join()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("after_bytes", [1, 14, 15, 200, 1_000, 3_000, 3_333, 7_777, 12_000])
def test_an_answer_that_breaks_off_has_failed_wherever_it_breaks(company: Slapd, after_bytes: int) -> None:
    with cutting_proxy(company.port, after_bytes) as port, pytest.raises(DirectoryListingFailed):
        listed(company, EMPLOYEE_DIR_LDAP_URL=f"ldap://127.0.0.1:{port}", EMPLOYEE_DIR_LDAP_PAGE_SIZE="20")


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        (
            {"EMPLOYEE_DIR_LDAP_BIND_PASSWORD": "wrong hunter2"},
            r"bind ended with invalidCredentials \(49\); the bind DN",
        ),
        ({"EMPLOYEE_DIR_LDAP_BIND_DN": "cn=nobody,dc=halmere,dc=example"}, r"invalidCredentials \(49\)"),
        ({"EMPLOYEE_DIR_LDAP_BIND_DN": "no dn"}, r"bind"),
        ({"EMPLOYEE_DIR_LDAP_BASE": "ou=moved,dc=halmere,dc=example"}, r"noSuchObject \(32\); EMPLOYEE_DIR_LDAP_BASE"),
        ({"EMPLOYEE_DIR_LDAP_BASE": "dc=elsewhere"}, r"noSuchObject \(32\)|referral \(10\)"),
        ({"EMPLOYEE_DIR_LDAP_FILTER": "(objectClass=person"}, r"invalid filter"),
        ({"EMPLOYEE_DIR_LDAP_BIND_DN": "", "EMPLOYEE_DIR_LDAP_BIND_PASSWORD": ""}, r"noSuchObject \(32\)"),
        ({"EMPLOYEE_DIR_LDAP_URL": "ldap://127.0.0.1:1"}, r"ldap://127\.0\.0\.1:1: .*refused"),
        ({"EMPLOYEE_DIR_LDAP_TLS": "starttls"}, r"startTLS failed"),
    ],
)
def test_a_server_that_refuses_is_a_reason_without_the_password(
    company: Slapd, environment: dict[str, str], complaint: str
) -> None:
    with pytest.raises(DirectoryListingFailed, match=complaint) as caught:
        listed(company, **environment)
    assert PASSWORD not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_parts_on_other_servers_are_refused_unless_one_may_do_without(slapd: StartSlapd) -> None:
    elsewhere = (
        f"dn: ou=bremen,{COMPANY}\nobjectClass: referral\nobjectClass: extensibleObject\nou: bremen\n"
        f"ref: ldap://127.0.0.1:1/ou=bremen,{COMPANY}\n"
    )
    server = slapd(COMPANY, [EXAMPLE_LDIF], entries=elsewhere)
    with pytest.raises(DirectoryListingFailed, match=r"are on other servers \(ldap://127\.0\.0\.1:1/ou=bremen"):
        listed(server)
    assert len(listed(server, EMPLOYEE_DIR_LDAP_REFERENCES="ignore")) == 50
    with pytest.raises(DirectoryListingFailed, match=r"referral \(10\); another server has this directory"):
        listed(server, EMPLOYEE_DIR_LDAP_BASE=f"ou=bremen,{COMPANY}")


@pytest.mark.parametrize("road", ["starttls", "ldaps"])
def test_tls_with_an_authority_of_our_own(slapd: StartSlapd, tmp_path: Path, road: str) -> None:
    made = make_certificates(tmp_path / "ours")
    server = slapd(COMPANY, [EXAMPLE_LDIF], tls=made.slapd_settings, security="security ssf=128")
    url = f"ldaps://127.0.0.1:{server.ldaps_port}" if road == "ldaps" else f"ldap://127.0.0.1:{server.port}"
    encrypted = {"EMPLOYEE_DIR_LDAP_URL": url, "EMPLOYEE_DIR_LDAP_TLS": "starttls"}
    assert len(listed(server, **encrypted, EMPLOYEE_DIR_LDAP_CA_FILE=str(made.authority))) == 50

    others = make_certificates(tmp_path / "others")
    for environment in ({}, {"EMPLOYEE_DIR_LDAP_CA_FILE": str(others.authority)}):
        with pytest.raises(DirectoryListingFailed, match="CERTIFICATE_VERIFY_FAILED"):
            listed(server, **encrypted, **environment)
    assert len(listed(server, **encrypted, EMPLOYEE_DIR_LDAP_VERIFY="0")) == 50
    with pytest.raises(DirectoryListingFailed, match=r"EMPLOYEE_DIR_LDAP_CA_FILE=.*none\.pem: No such file"):
        listed(server, **encrypted, EMPLOYEE_DIR_LDAP_CA_FILE=str(tmp_path / "none.pem"))


@pytest.mark.parametrize("road", ["starttls", "ldaps"])
def test_a_certificate_for_another_host_is_refused(slapd: StartSlapd, tmp_path: Path, road: str) -> None:
    made = make_certificates(tmp_path / "ours", host="ldap.elsewhere.example")
    server = slapd(COMPANY, [EXAMPLE_LDIF], tls=made.slapd_settings)
    url = f"ldaps://127.0.0.1:{server.ldaps_port}" if road == "ldaps" else f"ldap://127.0.0.1:{server.port}"
    with pytest.raises(DirectoryListingFailed, match="IP address mismatch"):
        listed(
            server,
            EMPLOYEE_DIR_LDAP_URL=url,
            EMPLOYEE_DIR_LDAP_TLS="starttls",
            EMPLOYEE_DIR_LDAP_CA_FILE=str(made.authority),
        )


def test_a_server_that_wants_tls_is_asked_for_it(slapd: StartSlapd, tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "ours")
    server = slapd(COMPANY, [EXAMPLE_LDIF], tls=made.slapd_settings, security="security ssf=128")
    with pytest.raises(DirectoryListingFailed, match=r"confidentialityRequired \(13\); the server wants TLS"):
        listed(server)
