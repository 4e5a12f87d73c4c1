"""Lambda: bring the database to today's schema. Invoked at deploy, and by the local stack at start."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return {"applied": wiring.migrate()}
