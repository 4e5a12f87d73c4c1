"""What template.yaml promises: to operators, to the local Lambda service, and to whoever deploys it."""

from __future__ import annotations

import ast
import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from knowledge.embedding.models import DEFAULT_MODELS
from knowledge.settings import SyncSettings
from knowledge.sync.config import MAX_TIMEOUT_MS
from local.lambda_service.cloudformation import parse_yaml

CHECKOUT = Path(__file__).resolve().parents[2]
TEMPLATE = parse_yaml((CHECKOUT / "template.yaml").read_text())
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]
GLOBALS: dict[str, Any] = TEMPLATE["Globals"]["Function"]
FUNCTIONS = {
    name: resource["Properties"]
    for name, resource in RESOURCES.items()
    if resource["Type"] == "AWS::Serverless::Function"
}

# AWS refuses a function that declares one of these, and sets them itself.
RESERVED_VARIABLES = {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_LAMBDA_FUNCTION_NAME", "AWS_ACCESS_KEY_ID", "TZ"}
# Powertools reads these, so no settings module of ours does.
POWERTOOLS_VARIABLES = {"LOG_LEVEL", "POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE"}


def resources(kind: str) -> dict[str, dict[str, Any]]:
    return {name: resource for name, resource in RESOURCES.items() if resource["Type"] == kind}


def folder(function: dict[str, Any]) -> Path:
    return CHECKOUT / function["CodeUri"]


def routes(function: dict[str, Any]) -> set[str]:
    """`METHOD /path` of each HTTP route, path parameters without their names."""
    events = function.get("Events", {}).values()
    http = [event["Properties"] for event in events if event["Type"] == "HttpApi"]
    return {f"{event['Method']} {without_names(event['Path'])}" for event in http}


def without_names(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def handled_routes(function: dict[str, Any]) -> set[str]:
    """What the handler itself says that it answers, by its published OpenAPI."""
    app = importlib.import_module(f"functions.{folder(function).name}.app").app
    paths = app.get_openapi_schema(title="", version="0").paths
    methods = ("get", "post", "put", "patch", "delete")
    return {
        f"{method.upper()} {without_names(path.replace('<', '{').replace('>', '}'))}"
        for path, item in paths.items()
        for method in methods
        if getattr(item, method)
    }


WITH_ROUTES = [name for name, function in FUNCTIONS.items() if routes(function) and name != "ConsoleFunction"]


@pytest.mark.parametrize("name", WITH_ROUTES)
def test_the_template_routes_exactly_what_the_handler_answers(name: str) -> None:
    assert routes(FUNCTIONS[name]) == handled_routes(FUNCTIONS[name])


def test_the_template_lets_in_whatever_the_console_has_pages_for() -> None:
    from console.app import PAGES, SIGN_IN

    let_in = [re.compile(route.replace("{}", ".+")) for route in routes(FUNCTIONS["ConsoleFunction"])]
    asked = [*PAGES, ("GET", SIGN_IN), ("POST", SIGN_IN), ("POST", "/console/sign-out"), ("GET", "/console/static/x")]
    assert [each for each in asked if not any(route.fullmatch(" ".join(each)) for route in let_in)] == []


def test_the_console_has_no_business_in_the_database() -> None:
    console = FUNCTIONS["ConsoleFunction"]
    assert console["VpcConfig"] == {"Ref": "AWS::NoValue"}  # from a network without a way out it could not ask the API
    assert "Database" not in str(console["Policies"])


def test_every_folder_under_functions_is_one_function_of_the_template() -> None:
    folders = {path.parent for path in (CHECKOUT / "functions").glob("*/app.py")}
    assert {folder(function) for function in FUNCTIONS.values()} == folders
    assert len(FUNCTIONS) == len(folders)


@pytest.mark.parametrize(
    ("route", "function"),
    [
        ("POST /api/v1/knowledge/upsert", "UpsertFunction"),
        ("POST /api/v1/knowledge/bulk-upsert", "UpsertFunction"),
        ("POST /api/v1/knowledge/delete", "UpsertFunction"),
        ("DELETE /api/v1/knowledge/{}", "UpsertFunction"),
        ("POST /api/v1/knowledge/query", "QueryFunction"),
        ("GET /api/v1/knowledge/stats", "AdminFunction"),
        ("GET /health", "AdminFunction"),
        ("GET /version", "AdminFunction"),
    ],
)
def test_a_published_route_stays_with_its_function(route: str, function: str) -> None:
    assert [name for name in FUNCTIONS if route in routes(FUNCTIONS[name])] == [function]


def test_no_route_leads_to_two_functions() -> None:
    every = [route for function in FUNCTIONS.values() for route in routes(function)]
    assert len(every) == len(set(every))


def test_an_id_with_slashes_is_one_path_parameter() -> None:
    events = FUNCTIONS["UpsertFunction"]["Events"].values()
    deletes = [event["Properties"]["Path"] for event in events if event["Properties"]["Method"] == "DELETE"]
    assert deletes == ["/api/v1/knowledge/{id+}"]


def test_migrate_is_reachable_from_no_route_and_no_url() -> None:
    migrate = FUNCTIONS["MigrateFunction"]
    assert not migrate.get("Events")
    assert "FunctionUrlConfig" not in migrate


def test_a_deploy_migrates_before_functions_change() -> None:
    migration = RESOURCES["Migration"]
    assert migration["Type"] == "AWS::CloudFormation::CustomResource"
    assert migration["Properties"]["ServiceToken"] == {"Fn::GetAtt": ["MigrateFunction", "Arn"]}
    assert int(migration["Properties"]["ServiceTimeout"]) > FUNCTIONS["MigrateFunction"]["Timeout"]
    assert migration["Properties"]["Release"] == {"Ref": "MigrateFunction.Version"}  # so that each release updates it
    waiting = {name for name in FUNCTIONS if RESOURCES[name].get("DependsOn") == "Migration"}
    # The two that Migration itself needs: MigrateFunction, and SyncTriggerFunction, which its schedules fire; and the
    # console, which never sees the database.
    assert set(FUNCTIONS) - waiting == {"MigrateFunction", "SyncTriggerFunction", "ConsoleFunction"}


def test_functions_run_on_a_supported_runtime_and_are_taken_as_they_are() -> None:
    assert GLOBALS["Runtime"] == "python3.13"
    assert GLOBALS["Handler"] == "app.handler"
    assert GLOBALS["Layers"] == [{"Ref": "KnowledgeLayer"}]
    for name, function in FUNCTIONS.items():
        assert not {"Runtime", "Handler", "Layers"} & function.keys(), name
        assert RESOURCES[name]["Metadata"] == {"SkipBuild": True}, name


def test_the_layer_is_built_by_make_for_the_runtime_and_both_architectures() -> None:
    layer = RESOURCES["KnowledgeLayer"]
    assert layer["Metadata"]["BuildMethod"] == "makefile"
    assert layer["Properties"]["CompatibleRuntimes"] == [GLOBALS["Runtime"]]
    assert set(layer["Properties"]["CompatibleArchitectures"]) == set(
        TEMPLATE["Parameters"]["Architecture"]["AllowedValues"]
    )
    makefile = (CHECKOUT / layer["Properties"]["ContentUri"] / "Makefile").read_text()
    assert "\nbuild-KnowledgeLayer:" in makefile
    assert f"RUNTIME := {GLOBALS['Runtime'].removeprefix('python')}\n" in makefile


@pytest.mark.parametrize("name", WITH_ROUTES)
def test_a_function_behind_the_http_api_gives_up_before_the_api_does(name: str) -> None:
    assert FUNCTIONS[name].get("Timeout", GLOBALS["Timeout"]) < 30


def variables_read() -> set[str]:
    """The names of environment variables that the server's settings module holds."""
    tree = ast.parse((CHECKOUT / "layers" / "knowledge" / "settings.py").read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", text)}


def test_every_variable_that_the_functions_read_is_declared_and_no_other() -> None:
    """Only a declared variable can be overridden by `sam local` and by the local Lambda service."""
    assert {"DATABASE_URL", "EMBEDDING_BACKEND", "SPOT_INTERNAL_API_KEY"} <= variables_read()
    declared = set(GLOBALS["Environment"]["Variables"])
    assert declared == (variables_read() | POWERTOOLS_VARIABLES) - RESERVED_VARIABLES
    for name, function in FUNCTIONS.items():
        assert set(function["Environment"]["Variables"]) <= declared, name


def test_what_is_exposed_is_closed_unless_someone_opens_it() -> None:
    parameters = TEMPLATE["Parameters"]
    assert parameters["QueryAccess"]["Default"] == "key"
    assert parameters["QueryUrlAuth"]["Default"] == "AWS_IAM"
    assert [name for name, function in FUNCTIONS.items() if "FunctionUrlConfig" in function] == ["QueryFunction"]
    assert FUNCTIONS["QueryFunction"]["FunctionUrlConfig"]["AuthType"] == {"Ref": "QueryUrlAuth"}


def test_no_secret_stands_in_the_template() -> None:
    variables = GLOBALS["Environment"]["Variables"]
    for name in ("DATABASE_URL", "SPOT_INTERNAL_API_KEY", "SPOT_INTERNAL_API_KEY_PREVIOUS"):
        assert variables[name] == "", name
    assert TEMPLATE["Parameters"]["OpenAiApiKey"]["NoEcho"] is True


def allowances(function: dict[str, Any]) -> set[str]:
    """What a function's role may do, in words: SAM's policy templates, and the services of its own statements."""
    allowed: set[str] = set()
    for policy in function["Policies"]:
        match policy:
            case {"AWSSecretsManagerGetSecretValuePolicy": _}:
                pass  # which of them, test_template_stacks.py tells: that depends on the stack's parameters
            case {"Statement": [{"Action": "secretsmanager:GetSecretValue"}]}:
                pass
            case {"Fn::If": ["UsesBedrock", {"Ref": "EmbeddingPolicy"}, {"Ref": "AWS::NoValue"}]}:
                allowed.add("embed")
            case {"Statement": statements}:
                allowed |= {
                    f"use {action.partition(':')[0]}" for _, actions, _ in grants(statements) for action in actions
                }
            case _:
                pytest.fail(f"a policy that this test cannot read: {policy}")
    return allowed


def grants(statements: list[dict[str, Any]]) -> list[tuple[str, list[str], list[str]]]:
    """Effect, actions and resources (as text) of each statement."""

    def many(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]

    return [
        (statement["Effect"], many(statement["Action"]), [json.dumps(it) for it in many(statement["Resource"])])
        for statement in statements
    ]


ALLOWED: dict[str, set[str]] = {
    "UpsertFunction": {"embed"},
    "QueryFunction": {"embed"},
    "AdminFunction": {"use lambda"},
    "MigrateFunction": {"use events", "use sqs"},
    "SyncTriggerFunction": set(),
    "TtlCleanupFunction": set(),
    "ConsoleFunction": set(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_do_what_this_table_says_and_read_secrets_and_nothing_else(name: str) -> None:
    assert allowances(FUNCTIONS[name]) == ALLOWED[name]


def test_no_statement_allows_every_action_or_reaches_beyond_this_stack() -> None:
    documents = [policy["Properties"]["PolicyDocument"] for policy in resources("AWS::IAM::ManagedPolicy").values()]
    inline = [policy for function in FUNCTIONS.values() for policy in function["Policies"] if "Statement" in policy]
    knows_no_resources = {"events:ListRules"}
    for document in documents + inline:
        for effect, actions, reached in grants(document["Statement"]):
            assert effect == "Allow"
            assert not [action for action in actions if "*" in action]
            if not set(actions) <= knows_no_resources:
                ours = ("Fn::GetAtt", "${AWS::StackName}", "${Model}", "SecretArn")
                assert all(any(mark in where for mark in ours) for where in reached), reached


def test_embedding_is_allowed_with_the_model_that_the_settings_choose() -> None:
    policy = json.dumps(RESOURCES["EmbeddingPolicy"])
    assert f'"{DEFAULT_MODELS["bedrock"]}"' in policy
    assert TEMPLATE["Parameters"]["EmbeddingBackend"]["Default"] == "bedrock"


def test_every_function_and_the_api_write_to_a_log_of_their_own_that_is_kept_for_a_while() -> None:
    groups = resources("AWS::Logs::LogGroup")
    used = [function["LoggingConfig"]["LogGroup"]["Ref"] for function in FUNCTIONS.values()]
    used.append(RESOURCES["KnowledgeApi"]["Properties"]["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0])
    assert sorted(used) == sorted(groups)
    for name, group in groups.items():
        assert group["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}, name


def test_access_logs_are_json_without_persons_in_them() -> None:
    text = RESOURCES["KnowledgeApi"]["Properties"]["AccessLogSettings"]["Format"]
    assert "$context.routeKey" in json.loads(text).values()
    assert not [field for field in ("$context.path", "sourceIp", "userAgent") if field in text]


def test_outputs_name_what_clients_need() -> None:
    assert {"ApiUrl", "KnowledgeUrl", "QueryUrl", "LayerArn"} <= TEMPLATE["Outputs"].keys()
    assert TEMPLATE["Outputs"]["KnowledgeUrl"]["Value"]["Fn::Sub"].endswith("/api/v1/knowledge")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_a_sample_event_for_a_route_of_its_own(name: str) -> None:
    event = json.loads((CHECKOUT / "events" / f"{folder(FUNCTIONS[name]).name}.json").read_text())
    if not routes(FUNCTIONS[name]):
        return
    http = event["requestContext"]["http"]
    assert event["version"] == "2.0"
    assert event["routeKey"] == event["requestContext"]["routeKey"]
    assert without_names(event["routeKey"]) in routes(FUNCTIONS[name])
    assert (http["method"], http["path"]) == (event["routeKey"].split()[0], event["rawPath"])
    assert event["headers"].get("content-length", "0") == str(len(event.get("body", "").encode()))


def test_sam_builds_the_layer_anew_each_time() -> None:
    """A cached layer would be stale after a change of spot_sdk or knowledge alone."""
    config = tomllib.loads((CHECKOUT / "samconfig.toml").read_text())
    assert config["default"]["build"]["parameters"]["cached"] is False
    assert {"dev", "prod"} <= config.keys()


# Schedules and what becomes of events that nobody handled

TO_THE_QUEUE = {"Fn::GetAtt": ["LostEvents", "Arn"]}
# As schedules.py names them.
RULES_OF_SYNCS = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/${AWS::StackName}-sync-*"


@pytest.mark.parametrize("name", ["SyncTriggerFunction", "TtlCleanupFunction"])
def test_an_event_that_a_function_does_not_handle_is_repeated_and_then_kept(name: str) -> None:
    config = FUNCTIONS[name]["EventInvokeConfig"]
    assert config["MaximumRetryAttempts"] == 2
    assert 60 <= config["MaximumEventAgeInSeconds"] <= 3600
    assert config["DestinationConfig"]["OnFailure"] == {"Type": "SQS", "Destination": TO_THE_QUEUE}


def test_expired_documents_are_removed_every_hour() -> None:
    (hourly,) = FUNCTIONS["TtlCleanupFunction"]["Events"].values()
    assert hourly["Type"] == "Schedule"
    assert hourly["Properties"]["Schedule"] == "rate(1 hour)"
    assert hourly["Properties"]["RetryPolicy"].keys() == {"MaximumRetryAttempts", "MaximumEventAgeInSeconds"}
    assert hourly["Properties"]["DeadLetterConfig"] == {"Arn": TO_THE_QUEUE}


def test_a_sync_may_take_as_long_as_a_function_lives() -> None:
    assert FUNCTIONS["SyncTriggerFunction"]["Timeout"] == 900
    assert FUNCTIONS["SyncTriggerFunction"]["Timeout"] > MAX_TIMEOUT_MS / 1000


def test_only_rules_of_this_stack_may_start_a_sync_and_only_those_may_be_made() -> None:
    (permission,) = resources("AWS::Lambda::Permission").values()
    assert permission["Properties"] == {
        "Action": "lambda:InvokeFunction",
        "FunctionName": {"Ref": "SyncTriggerFunction"},
        "Principal": "events.amazonaws.com",
        "SourceArn": {"Fn::Sub": RULES_OF_SYNCS},
    }
    own, _ = [policy for policy in FUNCTIONS["MigrateFunction"]["Policies"] if "Statement" in policy]
    of_rules, listing, of_lost_events = own["Statement"]
    assert of_rules["Resource"] == {"Fn::Sub": RULES_OF_SYNCS}
    assert listing["Action"] == "events:ListRules"
    assert of_lost_events["Resource"] == TO_THE_QUEUE
    assert GLOBALS["Environment"]["Variables"]["SCHEDULE_PREFIX"] == {"Ref": "AWS::StackName"}


def test_the_function_that_makes_rules_may_do_what_the_code_asks_for() -> None:
    own, _ = [policy for policy in FUNCTIONS["MigrateFunction"]["Policies"] if "Statement" in policy]
    allowed = {action for statement in own["Statement"] for action in grants([statement])[0][1]}
    source = (CHECKOUT / "layers" / "knowledge" / "sync" / "schedules.py").read_text()
    called = set(re.findall(r"self\._events\.(\w+)\(|self\._pages\(\"(\w+)\"", source))
    operations = {"".join(names).replace("_", " ").title().replace(" ", "") for names in called} - {"GetPaginator"}
    assert allowed == {f"events:{operation}" for operation in operations} | {"events:TagResource", "sqs:SendMessage"}


@pytest.mark.parametrize("name", ["AdminFunction", "MigrateFunction"])
def test_functions_that_start_syncs_know_the_function_that_does_them(name: str) -> None:
    variables = FUNCTIONS[name]["Environment"]["Variables"]
    assert variables["SYNC_TRIGGER_ARN"] == {"Fn::GetAtt": ["SyncTriggerFunction", "Arn"]}
    assert GLOBALS["Environment"]["Variables"]["SYNC_TRIGGER_ARN"] == ""
    assert GLOBALS["Environment"]["Variables"]["SYNC_DLQ_ARN"] == TO_THE_QUEUE


def test_lost_events_are_encrypted_kept_and_told_of() -> None:
    queue = RESOURCES["LostEvents"]["Properties"]
    assert queue["SqsManagedSseEnabled"] is True
    assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600
    alarm = RESOURCES["EventsAreLost"]["Properties"]
    assert alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["LostEvents", "QueueName"]}}]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 0)


def test_only_rules_of_this_stack_may_put_events_into_the_queue() -> None:
    (statement,) = RESOURCES["RulesMayReportLostEvents"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert (statement["Action"], statement["Resource"]) == ("sqs:SendMessage", TO_THE_QUEUE)
    source = statement["Condition"]["ArnLike"]["aws:SourceArn"]["Fn::Sub"]
    assert source.endswith(":rule/${AWS::StackName}-*")


def test_the_layer_carries_the_operators_file_where_the_functions_look_for_it() -> None:
    makefile = (CHECKOUT / "layers" / "Makefile").read_text()
    assert 'cp "$(HERE)../infra/spot.yaml" "$(ARTIFACTS_DIR)/spot.yaml"' in makefile
    assert SyncSettings().config_path == Path("/opt/spot.yaml")
    assert GLOBALS["Environment"]["Variables"]["SPOT_CONFIG_PATH"] == ""
