"""Answers with its environment."""

import os
import sys
from pathlib import Path
from typing import Any


def handler(event: Any, context: Any) -> dict[str, Any]:
    return {
        "variables": dict(os.environ),
        "folder": str(Path.cwd()),
        "path": sys.path,
        "arn": context.invoked_function_arn,
        "memory": context.memory_limit_in_mb,
    }
