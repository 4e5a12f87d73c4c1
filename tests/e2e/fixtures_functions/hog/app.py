"""Takes as many megabytes as it is told and keeps them while it sleeps."""

import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> int:
    taken = b"x" * (event["megabytes"] * 1024 * 1024)
    time.sleep(event.get("seconds", 0))
    return len(taken)
