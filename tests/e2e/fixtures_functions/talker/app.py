"""Prints and logs."""

import logging
import sys
from typing import Any

logging.getLogger().setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> int:
    print("printed")
    logging.info("logged")
    sys.stderr.write("on stderr, without a line end")
    for number in range(event.get("lines", 0)):
        print(f"line {number}")
    return event.get("lines", 0)
