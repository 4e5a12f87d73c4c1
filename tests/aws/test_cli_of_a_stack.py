"""``knowledge --stack NAME``: a stack on AWS, as moto plays it, and what the command makes of its outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.exceptions import ClientError

import cli.store
from cli import deployed
from cli.main import run
from spot_sdk.client import KnowledgeClient
from spot_sdk.testing import FakeKnowledgeClient

URL = "https://abc.execute-api.eu-central-1.amazonaws.com/api/v1/knowledge"


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def secret() -> str:
    answer = boto3.client("secretsmanager").create_secret(
        Name="keys", SecretString=json.dumps({"current": "key-of-the-stack", "previous": "yesterdays"})
    )
    return answer["ARN"]


@pytest.fixture
def outputs(secret: str) -> dict[str, str]:
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:sync"
    queue = "arn:aws:sqs:eu-central-1:123456789012:lost"
    return {"KnowledgeUrl": URL, "InternalApiKeySecretArn": secret, "SyncTriggerArn": arn, "LostEventsArn": queue}


def make_stack(name: str, outputs: dict[str, str]) -> None:
    """A stack with these outputs, and a queue, since one without any resource is refused."""
    template = {
        "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()},
    }
    boto3.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The addresses and keys of the clients that commands made; the store itself is one in memory."""
    made: list[tuple[str, str | None]] = []

    def make(url: str, key: str | None) -> FakeKnowledgeClient:
        made.append((url, key))
        KnowledgeClient(url, key)  # which refuses an address or a key that is none
        return FakeKnowledgeClient()

    monkeypatch.setattr(cli.store, "KnowledgeClient", make)
    return made


@pytest.fixture
def knowledge(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("KNOWLEDGE_HOME", str(tmp_path))
    for name in ("SPOT_KNOWLEDGE_URL", "SPOT_INTERNAL_API_KEY", "SYNC_TRIGGER_ARN", "SCHEDULE_PREFIX"):
        monkeypatch.delenv(name, raising=False)

    def knowledge(*arguments: str) -> Ended:
        code = run(arguments)
        said = capsys.readouterr()
        return Ended(int(code), said.out, said.err)

    return knowledge


def test_address_and_key_are_the_stacks(knowledge: Any, asked: list[Any], outputs: dict[str, str]) -> None:
    make_stack("spot", outputs)
    assert knowledge("--stack", "spot", "stats").code == 0
    assert asked == [(URL, "key-of-the-stack")]


def test_what_the_environment_says_of_another_store_is_not_mixed_in(
    knowledge: Any, asked: list[Any], outputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", "http://127.0.0.1:8787/api/v1/knowledge")
    monkeypatch.setenv("SPOT_INTERNAL_API_KEY", "key-of-another-store")
    make_stack("spot", outputs)
    assert knowledge("--stack", "spot", "query", "wire transfer").code == 0
    assert asked == [(URL, "key-of-the-stack")]


def test_the_next_command_line_names_its_own(knowledge: Any, asked: list[Any], outputs: dict[str, str]) -> None:
    make_stack("spot", outputs)
    assert knowledge("--stack", "spot", "stats").code == 0
    assert knowledge("stats", "--url", "http://other.example/api/v1/knowledge").code == 0
    assert asked[1] == ("http://other.example/api/v1/knowledge", None)


def test_schedules_are_those_of_the_stack(knowledge: Any, outputs: dict[str, str], tmp_path: Path) -> None:
    make_stack("spot", outputs)
    file = tmp_path / "spot.yaml"
    file.write_text("plugins: {context_providers: {wiki: {url: 'https://wiki.example', sync_schedule: '0 3 * * *'}}}\n")
    ended = knowledge("--stack", "spot", "schedules", "apply", "--file", str(file), "--region", "eu-central-1")
    assert ended.code == 0, ended.err
    (rule,) = boto3.client("events").list_rules()["Rules"]
    assert rule["Name"].startswith("spot-sync-")
    (target,) = boto3.client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
    assert target["Arn"] == outputs["SyncTriggerArn"]
    assert target["DeadLetterConfig"] == {"Arn": outputs["LostEventsArn"]}


def test_a_stack_that_is_not_there(knowledge: Any) -> None:
    ended = knowledge("--stack", "nobody", "stats")
    assert (ended.code, ended.err) == (2, "knowledge: there is no stack nobody in this account and region\n")


def test_a_stack_that_is_none_of_ours(knowledge: Any) -> None:
    make_stack("website", {"Url": "https://www.example"})
    ended = knowledge("--stack", "website", "stats")
    assert ended.code == 2
    assert "has no output KnowledgeUrl: is it a Knowledge Store?" in ended.err


def test_a_secret_without_a_key(knowledge: Any, outputs: dict[str, str], secret: str) -> None:
    boto3.client("secretsmanager").put_secret_value(SecretId=secret, SecretString="{}")
    make_stack("spot", outputs)
    ended = knowledge("--stack", "spot", "stats")
    assert (ended.code, "has no member `current`" in ended.err) == (2, True)


def test_without_credentials_one_line_says_so(knowledge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    ended = knowledge("--stack", "spot", "stats")
    assert ended.code == 2
    assert "You must specify a region" in ended.err
    assert ended.err.count("\n") == 1


def test_somebody_who_may_not_read_the_stack_is_told(knowledge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def describe_stacks(self, **_: str) -> None:
            answer = {"Error": {"Code": "AccessDenied", "Message": "User: x is not authorized"}}
            raise ClientError(answer, "DescribeStacks")  # type: ignore[arg-type]

    monkeypatch.setattr(boto3, "client", lambda _: Closed())
    ended = knowledge("--stack", "spot", "stats")
    assert ended.code == 1
    assert "cannot be read: User: x is not authorized" in ended.err


@pytest.mark.parametrize("command", ["up", "migrate", "dsn", "doctor", "export"])
def test_a_command_that_talks_to_no_store_refuses_a_stack(knowledge: Any, command: str) -> None:
    ended = knowledge("--stack", "spot", command)
    assert ended.code == 2
    assert "--stack is for delete, ingest" in ended.err


def test_no_command_line_leaves_a_stack_behind(knowledge: Any) -> None:
    knowledge("--stack", "nobody", "stats")
    knowledge("version")
    assert deployed.named_stack.get() is None
