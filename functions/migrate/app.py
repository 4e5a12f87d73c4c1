"""Lambda: bring the database to today's schema, and the schedules to what is declared.

Invoked at deploy, and by the local stack at start. Without SYNC_TRIGGER_ARN there are no schedules to apply.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    applied = wiring.migrate()
    schedules = wiring.apply_schedules()
    return {
        "applied": applied,
        "schedules": None if schedules is None else [change.model_dump() for change in schedules],
    }
