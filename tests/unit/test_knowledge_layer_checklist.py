"""Every test that docs/knowledge-layer.md gives as a proof is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
ITEMS = CHECKOUT / "tests/postgres/items"


def proofs() -> Iterator[tuple[str, str]]:
    """Modules that are named, and tests with theirs, or that of the one before: ``x.py::test_y``, ``::test_z``."""
    module = ""
    for name in re.findall(r"`([\w/]*\.py(?:::\w+)?|::\w+)`", (CHECKOUT / "docs/knowledge-layer.md").read_text()):
        path, _, test = name.partition("::")
        module = path or module
        yield module, test


@pytest.mark.parametrize(("module", "test"), sorted(set(proofs())))
def test_a_proof_is_there(module: str, test: str) -> None:
    places = (
        [CHECKOUT / module] if "/" in module else [*ITEMS.glob(module), *CHECKOUT.glob(f"tests/unit/items/{module}")]
    )
    assert len(places) == 1
    text = places[0].read_text(encoding="utf-8")
    assert not test or f"def {test}(" in text


def test_there_are_proofs() -> None:
    assert len(set(proofs())) > 30
