"""The environment of a worker: what Lambda gives a function and what the template declares, and nothing else.

The developer's own environment never gets in, their AWS credentials and profiles least of all.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from local.lambda_service.functions import FunctionSpec

_NO_REAL_ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_SESSION_TOKEN": "local",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def worker_environment(spec: FunctionSpec, *, runtime_api: str, endpoint_url: str | None = None) -> dict[str, str]:
    """All variables of a worker of `spec`. `endpoint_url` is the AWS emulator that boto3 shall use, if there is one."""
    environment = {
        **_NO_REAL_ACCOUNT,
        **({"AWS_ENDPOINT_URL": endpoint_url} if endpoint_url else {}),
        **({"AWS_ENDPOINT_URL_LAMBDA": spec.lambda_url} if spec.lambda_url else {}),
        **spec.environment,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{spec.runtime}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
        "AWS_LAMBDA_FUNCTION_NAME": spec.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": spec.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_REGION": spec.region,
        "AWS_DEFAULT_REGION": spec.region,
        "LAMBDA_TASK_ROOT": str(spec.code_dir),
        "_HANDLER": spec.handler,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(map(str, spec.layers)),
    }
    # PYTHONPATH's empty entry would mean the current folder, which comes first already.
    return {name: value for name, value in environment.items() if name != "PYTHONPATH" or value}
