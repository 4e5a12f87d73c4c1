"""The wiki as a provider."""

from __future__ import annotations

from collections.abc import Mapping

from examples.providers.listing import Deadline, Listing
from examples.providers.service import Connect, Provider
from examples.providers.settings import ServiceSettings, read
from examples.providers.wiki.pages import SOURCE, read_wiki
from examples.providers.wiki.settings import wiki


def provider(environment: Mapping[str, str] | None = None, connect: Connect | None = None) -> Provider:
    """The provider that the environment describes. Raises SettingsError for settings that are not right."""
    settings = wiki(environment)

    def read_pages(chunk_chars: int, deadline: Deadline) -> Listing:
        return read_wiki(settings, chunk_chars, deadline)

    return Provider(SOURCE, read_pages, read(ServiceSettings, environment), connect)
