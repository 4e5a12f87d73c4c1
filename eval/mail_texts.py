"""What constructed mails say (``mail_texts.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml


class Text(NamedTuple):
    subject: str
    body: str


@cache
def texts(kind: str) -> Sequence[Text]:
    """Those of a kind: ``hostile``, ``genuine`` or ``strangers``."""
    told = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return [Text(**one) for one in told[kind]]
