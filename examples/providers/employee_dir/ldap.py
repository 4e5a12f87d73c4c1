"""Lists an LDAP directory, page by page, and takes nothing for a listing that is not whole."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ldap3
from ldap3.core.exceptions import LDAPException

from examples.providers.employee_dir.entries import DirectoryListingFailed, Entry
from examples.providers.employee_dir.settings import LdapSettings
from examples.providers.listing import Deadline

_PAGED_RESULTS = "1.2.840.113556.1.4.319"  # the control of RFC 2696
_SUCCESS = 0

_ADVICE = {
    "sizeLimitExceeded": "the server cut the listing short; it must allow this reader more entries",
    "timeLimitExceeded": "the server cut the listing short; it must allow this reader more time",
    "adminLimitExceeded": "the server cut the listing short; it must allow this reader more",
    "unavailableCriticalExtension": "the server cannot list in pages",
    "referral": "another server has this directory",
    "noSuchObject": "EMPLOYEE_DIR_LDAP_BASE names nothing that this reader may see",
    "invalidCredentials": "the bind DN or the password is wrong",
    "confidentialityRequired": "the server wants TLS",
}


def list_ldap(settings: LdapSettings, attributes: Sequence[str], deadline: Deadline) -> list[Entry]:
    """Every entry that the filter chooses, with these attributes.

    Raises DirectoryListingFailed when the server cannot be reached or trusted, refuses, or answers any page with
    anything but success: size and time limits come as results beside entries, and ldap3 raises nothing for them.
    Raises DeadlineExceeded between two pages.
    """
    try:
        with _connected(settings, deadline) as connection:
            return [_entry(found) for page in _pages(connection, settings, attributes, deadline) for found in page]
    except LDAPException as error:
        raise DirectoryListingFailed(f"{settings.url}: {error}") from error


class _Tls(ldap3.Tls):
    """ldap3's TLS with the standard library's own check of the server's name, instead of a copy of an older one."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(validate=context.verify_mode)
        self._context = context

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        connection.socket = self._context.wrap_socket(
            connection.socket, server_hostname=connection.server.host, do_handshake_on_connect=do_handshake
        )


def _context(settings: LdapSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise DirectoryListingFailed(
            f"EMPLOYEE_DIR_LDAP_CA_FILE={settings.ca_file}: {error.strerror or error}"
        ) from error
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _connected(settings: LdapSettings, deadline: Deadline) -> Generator[Any]:
    """A connection that has shown who it is."""
    patience_s = max(1, min(settings.timeout_s, int(deadline.remaining_s)))
    server = ldap3.Server(
        settings.host,
        port=settings.port,
        use_ssl=settings.is_ldaps,
        tls=_Tls(_context(settings)),
        get_info=ldap3.NONE,
        connect_timeout=patience_s,
    )
    connection = ldap3.Connection(
        server,
        user=settings.bind_dn,
        password=settings.bind_password.get_secret_value() if settings.bind_password else None,
        client_strategy=ldap3.SYNC,
        auto_referrals=False,  # or it would show the password to whatever server it is sent to
        check_names=False,
        read_only=True,
        return_empty_attributes=False,
        receive_timeout=patience_s,
    )
    try:
        connection.open(read_server_info=False)
        if settings.tls == "starttls" and not settings.is_ldaps:
            connection.start_tls(read_server_info=False)
        connection.bind(read_server_info=False)
        _refuse_unless_success(settings, connection.result, "bind")
        yield connection
    finally:
        with suppress(LDAPException):  # the connection may be what failed
            connection.unbind()
        if connection.socket:  # which ldap3 leaves open then
            connection.socket.close()


def _pages(
    connection: Any, settings: LdapSettings, attributes: Sequence[str], deadline: Deadline
) -> Iterator[list[Mapping[str, Any]]]:
    cookie: bytes | None = None
    while True:
        deadline.check()
        connection.search(
            settings.base,
            settings.filter,
            attributes=list(attributes),
            dereference_aliases=ldap3.DEREF_NEVER,
            paged_size=settings.page_size,
            paged_criticality=True,
            paged_cookie=cookie,
        )
        _refuse_unless_success(settings, connection.result, "search")
        yield _entries(settings, connection.response)
        cookie = connection.result.get("controls", {}).get(_PAGED_RESULTS, {}).get("value", {}).get("cookie")
        if not cookie:
            return


def _refuse_unless_success(settings: LdapSettings, result: Mapping[str, Any], operation: str) -> None:
    if result["result"] == _SUCCESS:
        return
    name = str(result["description"])
    told = [f"{settings.url}: {operation} ended with {name} ({result['result']})", _ADVICE.get(name, "")]
    told += [str(result.get("message") or ""), *(result.get("referrals") or ())]
    raise DirectoryListingFailed("; ".join(part for part in told if part))


def _entries(settings: LdapSettings, response: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    references = [uri for found in response if found["type"] == "searchResRef" for uri in found["uri"]]
    if references and settings.references == "refuse":
        raise DirectoryListingFailed(
            f"{settings.url}: parts of {settings.base} are on other servers ({', '.join(references[:3])}); "
            "choose a narrower EMPLOYEE_DIR_LDAP_BASE, or set EMPLOYEE_DIR_LDAP_REFERENCES=ignore to do without them"
        )
    return [found for found in response if found["type"] == "searchResEntry"]


def _entry(found: Mapping[str, Any]) -> Entry:
    return Entry.of(found["dn"], found["raw_attributes"].items())
