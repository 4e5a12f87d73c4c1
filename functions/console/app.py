"""Lambda: the operators' web page."""

from __future__ import annotations

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from console.app import Console
from console.visit import Access
from knowledge import settings, wiring


@cache
def _console() -> Console:
    where = settings.console()
    return Console(
        Access(
            keys=wiring.internal_keys,
            api_url=where.api_url,
            analyzer_url=where.analyzer_url,
            series_url=where.series_url,
        )
    )


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return _console().resolve(event)
