"""Lambda: have one provider sync. Invoked by its EventBridge rules, and by the admin function for a manual sync."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.sync.events import ManualSync, ScheduledSync, parse_event
from knowledge.telemetry import logger, of_event
from spot_sdk.errors import StaleRun

MARGIN_S = 15.0  # for recording how it went


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    with of_event(context.aws_request_id):
        return _sync(event, context)


def _sync(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    request = parse_event(event)
    time_left_s = context.get_remaining_time_in_millis() / 1000 - MARGIN_S
    try:
        match request:
            case ScheduledSync():
                slot = request.time.astimezone(UTC).replace(second=0, microsecond=0)
                record = wiring.provider_sync().run_scheduled(request.provider_id, slot, time_left_s)
            case ManualSync():
                record = wiring.provider_sync().carry_on(request.run, time_left_s)
    except StaleRun:  # the event came twice, or too late: the run goes on elsewhere, or has ended
        record = None
    answer = {"status": "duplicate"} if record is None else record.model_dump(mode="json")
    logger.info("provider sync", provider_id=request.provider_id, outcome=answer["status"])
    return answer
