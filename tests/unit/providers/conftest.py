"""What the tests of both providers share."""

from __future__ import annotations

import pytest

from examples.providers.employee_dir.rules import Rules, read_rules
from examples.providers.employee_dir.settings import PACKAGE


@pytest.fixture(scope="session")
def rules() -> Rules:
    return read_rules(PACKAGE / "rules.yaml")
