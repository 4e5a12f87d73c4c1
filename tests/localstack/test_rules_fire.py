"""A schedule, from the operators' file to a provider's sync: applied, fired by LocalStack, handled by the function."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.sync_trigger.app import handler
from knowledge import wiring

MINUTES_WAITED = 3
SYNC_KEY = "what providers are shown"


class Provider:
    """A provider on loopback that remembers who called."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.calls.append({"path": self.path, "key": self.headers["X-Internal-API-Key"], "order": order})
                answer = json.dumps({"created": 2, "updated": 0, "unchanged": 0, "removed": 0}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def provider() -> Generator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.fixture
def spot_file(tmp_path: Path, provider: Provider) -> Path:
    path = tmp_path / "spot.yaml"
    path.write_text(
        f"""
plugins:
  context_providers:
    wiki: {{ url: "http://127.0.0.1:{provider.port}", sync_schedule: "* * * * *" }}
sync: {{ allow_http_hosts: [127.0.0.1] }}
"""
    )
    return path


@pytest.fixture
def function_environment(
    aws: Any, spot_file: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Generator[None]:
    """What the template gives the function, its keys in LocalStack's Secrets Manager."""
    secret = aws("secretsmanager").create_secret(
        Name="internal-keys", SecretString=json.dumps({"current": "a key", "sync": SYNC_KEY})
    )
    variables = {
        "AWS_ENDPOINT_URL": aws.endpoint_url,
        "DATABASE_URL": database_url,
        "EMBEDDING_BACKEND": "hash",
        "INTERNAL_API_KEY_SECRET_ARN": secret["ARN"],
        "SPOT_CONFIG_PATH": str(spot_file),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    wiring.reset()
    yield
    wiring.reset()


def knowledge(*arguments: str) -> Any:
    """What the command says, run as a person runs it."""
    command = [Path(sys.executable).with_name("knowledge"), *arguments, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.timeout(60 * (MINUTES_WAITED + 1))
def test_an_applied_schedule_fires_and_its_message_has_the_provider_sync(
    aws: Any, spot_file: Path, provider: Provider, function_environment: None
) -> None:
    sqs = aws("sqs")
    queue = sqs.create_queue(QueueName="instead-of-the-function")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    options = ["--file", str(spot_file), "--endpoint-url", aws.endpoint_url, "--prefix", "prod", "--trigger-arn", arn]

    changes = knowledge("schedules", "apply", *options)["changes"]
    assert [(change["rule"], change["action"]) for change in changes] == [("prod-sync-wiki-1", "create")]
    assert [change["action"] for change in knowledge("schedules", "plan", *options)["changes"]] == ["keep"]

    applied = time.monotonic()
    (message,) = _first_message(sqs, queue)
    print(f"the rule fired {time.monotonic() - applied:.0f} s after it was applied")
    event = json.loads(message["Body"])
    assert (event["trigger"], event["provider_id"]) == ("schedule", "wiki")

    context: Any = SimpleNamespace(aws_request_id="1", get_remaining_time_in_millis=lambda: 60_000)
    assert handler(event, context)["status"] == "succeeded"
    (call,) = provider.calls
    assert (call["path"], call["key"]) == ("/internal/sync", SYNC_KEY)
    assert handler(event, context) == {"status": "duplicate"}  # as when EventBridge delivers twice
    assert len(provider.calls) == 1

    spot_file.write_text("")
    knowledge("schedules", "apply", *options)
    assert aws("events").list_rules(NamePrefix="prod-sync-")["Rules"] == []


def _first_message(sqs: Any, queue: str) -> list[dict[str, Any]]:
    until = time.monotonic() + 60 * MINUTES_WAITED
    while time.monotonic() < until:
        answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, MaxNumberOfMessages=1)
        if answer.get("Messages"):
            return answer["Messages"]
    return []


def test_a_schedule_that_eventbridge_cannot_hold_is_refused_by_it_too(aws: Any) -> None:
    """LocalStack checks expressions, as AWS does and moto does not, so what `translate` makes is held to it."""
    events = aws("events")
    with pytest.raises(events.exceptions.ClientError, match="ScheduleExpression"):
        events.put_rule(Name="five-fields", ScheduleExpression="cron(* * * * *)")
