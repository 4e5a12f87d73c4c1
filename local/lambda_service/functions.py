"""What the template says about its functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_ROUTE = "$default"


@dataclass(frozen=True)
class HttpRoute:
    """One route of the HTTP API. `method` is upper case or ANY; `path` may hold `{name}` and `{name+}`, or is $default.

    `timeout_s` is how long the API waits for its function.
    """

    method: str
    path: str
    timeout_s: float = 30.0

    @property
    def key(self) -> str:
        """The route key as API Gateway writes it, such as `GET /health`."""
        return DEFAULT_ROUTE if self.path == DEFAULT_ROUTE else f"{self.method} {self.path}"


@dataclass(frozen=True)
class Schedule:
    """An EventBridge schedule of a function; `expression` is `rate(...)` or `cron(...)`, `input` is JSON text."""

    name: str
    expression: str
    input: str | None = None
    enabled: bool = True


@dataclass(frozen=True)
class AsyncPolicy:
    """How asynchronous invocations of a function are repeated after errors, and for how long they may wait.

    `on_failure` is the ARN of the queue that gets a record of an event that was not handled.
    """

    max_retries: int = 2
    max_age_s: float = 6 * 3600
    on_failure: str | None = None


@dataclass(frozen=True)
class FunctionSpec:
    """One AWS::Serverless::Function, resolved. `layers` are folders for the import path, the first one wins.

    `lambda_url` is where the function finds Lambda itself, to invoke other functions.
    """

    logical_id: str
    name: str
    arn: str
    code_dir: Path
    handler: str
    runtime: str
    log_group: str
    region: str = "us-east-1"
    timeout_s: float = 3.0
    memory_mb: int = 128
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    reserved_concurrency: int | None = None
    layers: tuple[Path, ...] = ()
    routes: tuple[HttpRoute, ...] = ()
    function_url: bool = False
    schedules: tuple[Schedule, ...] = ()
    async_policy: AsyncPolicy = AsyncPolicy()
    lambda_url: str | None = None

    @property
    def import_roots(self) -> tuple[Path, ...]:
        """Every folder that the function's own code comes from."""
        return (self.code_dir, *self.layers)
