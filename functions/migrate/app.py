"""Lambda: bring the database to today's schema, and the schedules to what is declared.

Invoked by CloudFormation at deploy (the resource Migration of template.yaml), by the local stack at start, and by an
operator. Without SYNC_TRIGGER_ARN there are no schedules to apply.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.custom_resource import CustomResourceRequest, RequestType, answer
from knowledge.telemetry import of_event


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    with of_event(context.aws_request_id):
        return _migrate(event)


def _migrate(event: dict[str, Any]) -> dict[str, Any]:
    if "RequestType" in event:
        answer(CustomResourceRequest.model_validate(event), deploy)
        return {}
    applied = wiring.migrate()
    schedules = wiring.apply_schedules()
    return {
        "applied": applied,
        "schedules": None if schedules is None else [change.model_dump() for change in schedules],
    }


def deploy(request_type: RequestType) -> dict[str, str]:
    """What a stack's life asks for. Deleting the stack takes the schedules away and leaves the database as it is.

    Rolling back runs the release before this one on the schema of this one, which it can read: migrations only add.
    """
    if request_type == "Delete":
        wiring.remove_schedules()
        return {}
    applied = wiring.migrate(accept_newer=True)
    wiring.apply_schedules()
    return {"Applied": ", ".join(applied)}
