"""From a SAM template to the functions that it describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.lambda_service.cloudformation import TemplateError
from local.lambda_service.functions import AsyncPolicy, FunctionSpec, HttpRoute, Schedule
from local.lambda_service.stack_names import StackNames
from local.lambda_service.template import Template, load_template

NAMES = StackNames(stack_name="test", region="eu-central-1", base_url="http://127.0.0.1:1234")

TEMPLATE = """
Parameters:
  LogLevel: {Type: String, Default: INFO}
  Workers: {Type: Number, Default: 3}
  Subnets: {Type: CommaDelimitedList, Default: 'a, b'}
  Password: {Type: String}
Conditions:
  Never: !Equals [1, 2]
Globals:
  Function:
    Runtime: python3.13
    Handler: app.handler
    Timeout: 30
    MemorySize: 512
    Layers: [!Ref BaseLayer]
    Environment:
      Variables:
        LOG_LEVEL: !Ref LogLevel
        SHARED: global
Resources:
  BaseLayer:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: base_layer}
  BuiltLayer:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: built_layer}
  Api:
    Type: AWS::Serverless::HttpApi
  Queue:
    Type: AWS::SQS::Queue
    Properties: {QueueName: !Sub '${AWS::StackName}-queue'}
  Secret:
    Type: AWS::SecretsManager::Secret
  Logs:
    Type: AWS::Logs::LogGroup
    Properties: {LogGroupName: !Sub '/lambda/${AWS::StackName}/store'}
  StoreFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub '${AWS::StackName}-store'
      CodeUri: store/
      Timeout: 5
      ReservedConcurrentExecutions: !Ref Workers
      LoggingConfig: {LogGroup: !Ref Logs}
      Layers: [!Ref BuiltLayer, 'arn:aws:lambda:eu-central-1:1:layer:Foreign:4']
      FunctionUrlConfig: {AuthType: AWS_IAM}
      EventInvokeConfig:
        MaximumRetryAttempts: 1
        MaximumEventAgeInSeconds: 60
        DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt Queue.Arn}}
      Environment:
        Variables:
          SHARED: own
          DEBUG: true
          PORT: 5432
          PASSWORD: !Ref Password
          QUEUE: !Ref Queue
          QUEUE_ARN: !GetAtt Queue.Arn
          SECRET: !Ref Secret
          ITSELF: !GetAtt StoreFunctionUrl.FunctionUrl
          API: !GetAtt Api.ApiEndpoint
          SUBNETS: !Join [',', !Ref Subnets]
          HOST: !GetAtt Database.Outputs.Host
      Events:
        Upsert: {Type: HttpApi, Properties: {ApiId: !Ref Api, Path: /upsert, Method: post}}
        One: {Type: HttpApi, Properties: {Path: '/x/{id}', Method: DELETE, TimeoutInMillis: 1500}}
        All: {Type: HttpApi}
        Nightly: {Type: Schedule, Properties: {Schedule: 'cron(0 3 * * ? *)', Input: '{"a": 1}'}}
        Later: {Type: ScheduleV2, Properties: {ScheduleExpression: 'rate(1 hour)', State: DISABLED, Name: later}}
        Feed: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn}}
  PlainFunction:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: plain}
  AbsentFunction:
    Type: AWS::Serverless::Function
    Condition: Never
    Properties: {CodeUri: nowhere}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("store", "plain", "base_layer", "built_layer/python"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    return tmp_path


def load(folder: Path, **options: dict[str, str] | dict[str, dict[str, str]]) -> Template:
    return load_template(folder / "template.yaml", NAMES, **options)  # type: ignore[arg-type]


def store(template: Template) -> FunctionSpec:
    return template.functions[0]


def test_a_function_with_everything(folder: Path) -> None:
    function = store(load(folder))
    assert function.logical_id == "StoreFunction"
    assert function.name == "test-store"
    assert function.arn == "arn:aws:lambda:eu-central-1:123456789012:function:test-store"
    assert function.code_dir == (folder / "store").resolve()
    assert (function.handler, function.runtime, function.region) == ("app.handler", "python3.13", "eu-central-1")
    assert (function.timeout_s, function.memory_mb, function.reserved_concurrency) == (5.0, 512, 3)
    assert function.layers == ((folder / "base_layer").resolve(), (folder / "built_layer" / "python").resolve())
    assert function.function_url
    assert function.log_group == "/lambda/test/store"
    queue = "arn:aws:sqs:eu-central-1:123456789012:test-queue"
    assert function.async_policy == AsyncPolicy(max_retries=1, max_age_s=60.0, on_failure=queue)
    assert function.lambda_url == "http://127.0.0.1:1234"


def test_routes_and_schedules_come_from_events(folder: Path) -> None:
    function = store(load(folder))
    assert function.routes == (
        HttpRoute("POST", "/upsert"),
        HttpRoute("DELETE", "/x/{id}", timeout_s=1.5),
        HttpRoute("ANY", "$default"),
    )
    assert [route.key for route in function.routes] == ["POST /upsert", "DELETE /x/{id}", "$default"]
    assert function.schedules == (
        Schedule("StoreFunctionNightly", "cron(0 3 * * ? *)", input='{"a": 1}'),
        Schedule("later", "rate(1 hour)", enabled=False),
    )


def test_environment_is_merged_resolved_and_text(folder: Path) -> None:
    assert store(load(folder)).environment == {
        "LOG_LEVEL": "INFO",
        "SHARED": "own",
        "DEBUG": "true",
        "PORT": "5432",
        "QUEUE": "https://sqs.eu-central-1.amazonaws.com/123456789012/test-queue",
        "QUEUE_ARN": "arn:aws:sqs:eu-central-1:123456789012:test-queue",
        "SECRET": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:test-Secret",
        "ITSELF": "http://127.0.0.1:1234/lambda-url/test-store/",
        "API": "http://127.0.0.1:1234",
        "SUBNETS": "a,b",
    }


def test_what_is_left_out_is_noted(folder: Path) -> None:
    notes = "\n".join(load(folder).notes)
    assert "StoreFunction: PASSWORD is left out, for parameter Password, which has no default" in notes
    assert "StoreFunction: HOST is left out, for GetAtt Database.Outputs.Host" in notes
    assert "layer:Foreign:4 is not in the template" in notes
    assert "StoreFunction: the event Feed does not arrive here, for its type is SQS" in notes


def test_defaults_of_a_plain_function(folder: Path) -> None:
    text = "Resources: {F: {Type: 'AWS::Serverless::Function', Properties: {CodeUri: plain, Handler: a.b, Runtime: r}}}"
    (folder / "template.yaml").write_text(text)
    function = store(load(folder))
    assert (function.name, function.timeout_s, function.memory_mb) == ("F", 3.0, 128)
    assert (function.reserved_concurrency, function.log_group) == (None, "/aws/lambda/F")
    assert function.async_policy == AsyncPolicy(max_retries=2, max_age_s=21600.0)
    assert (function.routes, function.schedules, function.layers, function.environment) == ((), (), (), {})


def test_a_function_whose_condition_is_false_is_absent(folder: Path) -> None:
    assert [function.logical_id for function in load(folder).functions] == ["StoreFunction", "PlainFunction"]


def test_parameters_replace_defaults(folder: Path) -> None:
    function = store(load(folder, parameters={"LogLevel": "DEBUG", "Password": "p", "Workers": "7"}))
    assert (function.environment["LOG_LEVEL"], function.environment["PASSWORD"]) == ("DEBUG", "p")
    assert function.reserved_concurrency == 7


def test_overrides_reach_only_declared_variables(folder: Path) -> None:
    overrides = {
        "Parameters": {"LOG_LEVEL": "ERROR", "HOST": "for-all", "UNDECLARED": "x"},
        "StoreFunction": {"HOST": "localhost", "TYPO": "y"},
        "NoFunction": {"A": "b"},
    }
    template = load(folder, overrides=overrides)
    environment = store(template).environment
    assert (environment["HOST"], environment["LOG_LEVEL"]) == ("localhost", "ERROR")
    assert not {"UNDECLARED", "TYPO"} & set(environment)
    assert template.functions[1].environment == {"LOG_LEVEL": "ERROR", "SHARED": "global"}
    assert (
        "StoreFunction: the template declares no variable TYPO, so the environment file cannot set it" in template.notes
    )
    assert "environment file: there is no function NoFunction" in template.notes
    assert not any("HOST" in note for note in template.notes)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("CodeUri: store/", "CodeUri: missing/", "StoreFunction.CodeUri: there is no folder"),
        ("CodeUri: store/", "CodeUri: !Ref Nobody", "StoreFunction.CodeUri: Ref Nobody is not known here"),
        ("    Handler: app.handler\n", "", "StoreFunction: Handler is missing"),
        ("Timeout: 5", "Timeout: !GetAtt A.B", "StoreFunction.Timeout"),
        ("AWS::Serverless::Function", "AWS::Lambda::Function", "no AWS::Serverless::Function"),
        ("Condition: Never", "Condition: Unknown", "Unknown is not declared"),
    ],
)
def test_templates_that_cannot_run(folder: Path, before: str, after: str, message: str) -> None:
    (folder / "template.yaml").write_text(TEMPLATE.replace(before, after))
    with pytest.raises(TemplateError, match=message):
        load(folder)


def test_an_unknown_parameter_is_refused(folder: Path) -> None:
    with pytest.raises(TemplateError, match="Loglevel"):
        load(folder, parameters={"Loglevel": "DEBUG"})


def test_an_intrinsic_function_replaces_a_global_value_instead_of_merging_with_it(folder: Path) -> None:
    text = TEMPLATE.replace("    MemorySize: 512", "    MemorySize: !Ref Workers").replace(
        "      Timeout: 5\n", "      Timeout: 5\n      MemorySize: !If [Never, 1, 1024]\n"
    )
    (folder / "template.yaml").write_text(text)
    assert store(load(folder)).memory_mb == 1024


@pytest.mark.parametrize(
    "destination",
    [
        "{Type: SNS, Destination: 'arn:aws:sns:eu-central-1:1:topic'}",
        "{Type: SQS, Destination: !GetAtt Elsewhere.Outputs.QueueArn}",
    ],
)
def test_a_destination_that_is_no_queue_known_here_is_left_out(folder: Path, destination: str) -> None:
    text = TEMPLATE.replace("{Type: SQS, Destination: !GetAtt Queue.Arn}", destination)
    assert text != TEMPLATE
    (folder / "template.yaml").write_text(text)
    assert store(load(folder)).async_policy.on_failure is None
