"""`python -m local.lambda_service`: the command line of the local Lambda service."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from local.lambda_service.cloudformation import TemplateError
from local.lambda_service.logs import LogSink
from local.lambda_service.metrics import MetricsPage
from local.lambda_service.series import Series
from local.lambda_service.server import ServerOptions, listen, serve
from local.lambda_service.service import Limits
from local.lambda_service.stack_names import StackNames
from local.lambda_service.template import Template, load_template

_DESCRIPTION = """\
Runs the functions of an AWS SAM template on this machine: the routes of its HTTP API, Function URLs under
/lambda-url/<function>/, and Lambda's Invoke operation for boto3 (endpoint_url=http://HOST:PORT).
Prints `ready http://HOST:PORT` when it listens; what functions print goes to stderr, or to --log-file.
SIGTERM or Ctrl-C stops it: running invocations may end first, a second signal ends them too.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until told to stop. The exit code: 0, or 2 with one line on stderr when a start is not possible."""
    options = _parser().parse_args(arguments)
    with contextlib.ExitStack() as resources:
        try:
            stream = resources.enter_context(_append_to(options.log_file)) if options.log_file else sys.stderr
            listener = resources.enter_context(listen(options.host, options.port))
            base_url = f"http://{options.host}:{listener.getsockname()[1]}"
            load = _loader(options, base_url)
            template = load()
        except TemplateError as error:
            return _refuse(str(error))
        except OSError as error:
            subject = error.filename or f"{options.host}:{options.port}"
            return _refuse(f"{subject}: {os.strerror(error.errno) if error.errno else error}")
        server_options = ServerOptions(
            options.template,
            Limits(options.max_workers, options.max_waiting),
            endpoint_url=options.aws_endpoint_url,
            region=options.region,
            reload=options.reload,
            drain_timeout_s=options.drain_timeout,
        )
        on_ready = partial(_say, f"ready {base_url}")
        metrics, series = MetricsPage(), Series()
        sink = LogSink(stream, (metrics.observe, series.observe))
        pages = (metrics.route, series.route(lambda: load().dashboard))
        asyncio.run(serve(template, server_options, listener, load, sink, on_ready, pages))
    return 0


def _loader(options: argparse.Namespace, base_url: str) -> partial[Template]:
    names = StackNames(options.stack_name, options.region, base_url=base_url, endpoint_url=options.aws_endpoint_url)
    return partial(_load, options.template, names, dict(options.parameter), options.env_file)


def _load(path: Path, names: StackNames, parameters: Mapping[str, str], env_file: Path | None) -> Template:
    """The template with the environment file's variables. Raises TemplateError, which names the file, and OSError."""
    overrides = _read_env_file(env_file) if env_file is not None else {}
    try:
        return load_template(path, names, parameters=parameters, overrides=overrides)
    except TemplateError as error:
        raise TemplateError(f"{path}: {error}") from error


def _read_env_file(path: Path) -> dict[str, dict[str, str]]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TemplateError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(variables, dict) for variables in content.values()):
        raise TemplateError(f'{path}: must look like {{"Parameters": {{"NAME": "value"}}, "Function": {{...}}}}')
    return content


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.lambda_service",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--template", type=Path, default=Path("template.yaml"), metavar="FILE", help="default: template.yaml")
    add("--host", default="127.0.0.1", help="default: 127.0.0.1")
    add("--port", type=int, default=8787, help="default: 8787; 0 takes a free one")
    add(
        "--env-file",
        type=Path,
        metavar="FILE",
        help="JSON with values for variables that the template declares, as `sam local --env-vars` takes it: "
        '{"Parameters": {"NAME": "value"}, "FunctionLogicalId": {"NAME": "value"}}',
    )
    add(
        "--parameter",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the template, in place of its default; may be repeated",
    )
    add("--region", default="us-east-1", help="what functions see as AWS_REGION; default: us-east-1")
    add("--stack-name", default="local", metavar="NAME", help="what AWS::StackName means; default: local")
    add(
        "--aws-endpoint-url",
        metavar="URL",
        help="an AWS emulator: functions find it as AWS_ENDPOINT_URL, the rules that are registered in its EventBridge "
        "are fired, and events that a function did not handle go to its on-failure queue there",
    )
    add("--max-workers", type=_positive, default=4, metavar="N", help="processes per function at most; default: 4")
    add(
        "--max-waiting",
        type=_positive,
        default=200,
        metavar="N",
        help="invocations of a function that may wait for a process before more are throttled; default: 200; "
        "functions with ReservedConcurrentExecutions throttle at that number instead",
    )
    add(
        "--drain-timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long running invocations may take once the service is told to stop; default: 10",
    )
    add("--log-file", type=Path, metavar="FILE", help="append logs to this file instead of writing them to stderr")
    add("--no-reload", dest="reload", action="store_false", help="do not watch code and template for changes")
    return parser


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _append_to(path: Path) -> contextlib.AbstractContextManager[Any]:
    return path.open("a", encoding="utf-8", buffering=1)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _refuse(reason: str) -> int:
    sys.stderr.write(f"lambda-service: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
