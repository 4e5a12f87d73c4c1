"""A directory server, the directories to put into it, and a real store to tell about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from examples.providers.employee_dir.settings import EXAMPLE_LDIF
from knowledge import wiring
from spot_sdk.knowledge import KnowledgeClient
from tests.contract.lambda_transport import LambdaTransport
from tests.e2e.providers.slapd import Slapd, find_slapd, running_slapd

CHECKOUT = Path(__file__).resolve().parents[3]
PUBLIC_DATA = Path(os.environ.get("PUBLIC_DATA", CHECKOUT.parent / "shared" / "data"))
KEY = "key-of-the-providers-tests"
URL = "http://store.test/api/v1/knowledge"

COMPANY = "dc=halmere,dc=example"
PEOPLE = "dc=example,dc=com"


def public_data(*parts: str) -> Path:
    """A folder or file of public data, which is not part of the checkout; PUBLIC_DATA says where it is."""
    path = PUBLIC_DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"public data is not there: {path} (set PUBLIC_DATA)")
    return path


@pytest.fixture
def slapd(tmp_path: Path) -> Generator[Callable[..., Slapd]]:
    """Starts servers (arguments as for ``running_slapd``, without the folder) that stop with the test."""
    if find_slapd() is None:
        pytest.skip("slapd is not installed: apt-get install slapd")
    with ExitStack() as servers:

        def start(*arguments: Any, **options: Any) -> Slapd:
            folder = tmp_path / f"slapd-{len(list(tmp_path.glob('slapd-*')))}"
            return servers.enter_context(running_slapd(folder, *arguments, **options))

        yield start


@pytest.fixture
def company(slapd: Callable[..., Slapd]) -> Slapd:
    """The example company's directory, served."""
    return slapd(COMPANY, [EXAMPLE_LDIF])


@pytest.fixture
def store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], KnowledgeClient]]:
    """Makes clients of the real store, called in process on a database of this test."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("EMBEDDING_BACKEND", "hash")
    monkeypatch.setenv("SPOT_INTERNAL_API_KEY", KEY)
    wiring.reset()
    yield lambda: KnowledgeClient(URL, KEY, transport=LambdaTransport())
    wiring.reset()
