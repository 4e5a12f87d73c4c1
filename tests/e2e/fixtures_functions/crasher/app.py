"""Ends in the way it is told."""

import json
import os
import signal
import subprocess
from typing import Any


class OwnError(Exception):
    pass


def handler(event: dict[str, Any], context: Any) -> Any:
    way = (json.loads(event["body"]) if "body" in event else event)["way"]
    print(f"about to {way}")
    match way:
        case "raise":
            raise OwnError("as asked")
        case "exit":
            os._exit(7)
        case "exit quietly":
            os._exit(0)
        case "start a process and exit":
            child = subprocess.Popen(["sleep", "60"])
            print(f"started {child.pid}")
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "answer too much":
            return "x" * 7_000_000
        case "answer nonsense":
            return {"statusCode": "many", "body": "no"}
    return "survived"
