"""Lambda: remove expired documents, and fold up what is counted of words. Invoked hourly by an EventBridge rule."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.telemetry import logger

MARGIN_MS = 10_000  # a batch ends well within it


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    result = wiring.expiry().clean_up(lambda: context.get_remaining_time_in_millis() > MARGIN_MS)
    folded = wiring.words().fold()
    logger.info("cleaned up", **result.model_dump(), folded=folded)
    return result.model_dump()
