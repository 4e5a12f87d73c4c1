"""The employee directory as a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from examples.providers.employee_dir.documents import SOURCE, documents
from examples.providers.employee_dir.entries import Entry
from examples.providers.employee_dir.ldif import read_ldif
from examples.providers.employee_dir.people import Directory
from examples.providers.employee_dir.rules import read_rules
from examples.providers.employee_dir.settings import DirectorySettings, directory, ldap
from examples.providers.listing import Deadline, Listing
from examples.providers.service import Connect, Provider, ReadSource
from examples.providers.settings import ServiceSettings, read

ListEntries = Callable[[Deadline], list[Entry]]


def provider(environment: Mapping[str, str] | None = None, connect: Connect | None = None) -> Provider:
    """The provider that the environment describes. Raises SettingsError for settings or rules that are not right."""
    return Provider(SOURCE, reader(environment), read(ServiceSettings, environment), connect)


def reader(environment: Mapping[str, str] | None = None) -> ReadSource:
    """What reads the directory that the environment names."""
    settings = directory(environment)
    rules = read_rules(settings.rules)
    list_entries = _ldap_lister(rules.wanted_attributes(), environment) if settings.ldap_url else _ldif_lister(settings)

    def read_directory(chunk_chars: int, deadline: Deadline) -> Listing:
        return documents(Directory.of(list_entries(deadline), rules), rules, chunk_chars)

    return read_directory


def _ldif_lister(settings: DirectorySettings) -> ListEntries:
    def list_entries(_: Deadline) -> list[Entry]:
        return [entry for entry in read_ldif(settings.ldif) if entry.is_person]

    return list_entries


def _ldap_lister(attributes: list[str], environment: Mapping[str, str] | None) -> ListEntries:
    settings = ldap(environment)

    from examples.providers.employee_dir.ldap import list_ldap  # ldap3 takes a second to import

    def list_entries(deadline: Deadline) -> list[Entry]:
        return list_ldap(settings, attributes, deadline)

    return list_entries
