"""Answers with the event it got."""

import json
from typing import Any

from shared_words import ANSWER


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    answer = {"event": event, "layer": ANSWER, "remaining_ms": context.get_remaining_time_in_millis() > 0}
    if "requestContext" not in event:
        return answer
    return {
        "statusCode": 200,
        "headers": {"Content-Type": "application/json", "X-Function": context.function_name},
        "cookies": ["one=1", "two=2"],
        "body": json.dumps(answer),
    }
