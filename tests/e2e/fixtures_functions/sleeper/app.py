"""Sleeps as long as it is told, in seconds, and says which process it was."""

import json
import os
import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    request = json.loads(event["body"]) if "body" in event else event
    time.sleep(request["seconds"])
    return {"slept": request["seconds"], "pid": os.getpid(), "request_id": context.aws_request_id}
