"""Lambda: remove expired documents, fold up what is counted of words, and count what is there. Invoked hourly.

The counts come last: metrics of an hour may be missing, and documents that nobody may see must not stay.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.telemetry import logger, of_event

MARGIN_MS = 10_000  # a batch ends well within it


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    with of_event(context.aws_request_id):
        result = wiring.expiry().clean_up(lambda: context.get_remaining_time_in_millis() > MARGIN_MS)
        folded = wiring.words().fold()
        logger.info("cleaned up", **result.model_dump(), folded=folded)
        wiring.take_census()
        return result.model_dump()
