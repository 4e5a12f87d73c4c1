"""What a deployment promises, by what its parameters are: template.yaml resolved as CloudFormation would do it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local.lambda_service.cloudformation import NO_VALUE, Resolver, Unresolved, parse_yaml

CHECKOUT = Path(__file__).resolve().parents[2]
TEMPLATE = parse_yaml((CHECKOUT / "template.yaml").read_text())
NETWORK = parse_yaml((CHECKOUT / "infra" / "network.yaml").read_text())
DATABASE = parse_yaml((CHECKOUT / "infra" / "database.yaml").read_text())
SIZES: dict[str, dict[str, int]] = TEMPLATE["Mappings"]["Sizes"]
FUNCTIONS = ("Upsert", "Query", "Admin", "Migrate", "SyncTrigger", "TtlCleanup")

OWN = {"DatabaseSecretArn": "owner", "InternalApiKeySecretArn": "key"}
OWN_WITH_USERS = OWN | {"DatabaseWriterSecretArn": "writer", "DatabaseReaderSecretArn": "reader"}
AURORA = {"CreateDatabase": "yes", "CreateInternalApiKey": "yes"}
AURORA_SECRETS = {f"Database.Outputs.{kind}SecretArn": kind.lower() for kind in ("Owner", "Writer", "Reader")}
PSEUDO = {
    "AWS::NoValue": NO_VALUE,
    "AWS::StackName": "spot",
    "AWS::StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/spot/0-1-2-3-4",
    "AWS::Region": "eu-central-1",
    "AWS::Partition": "aws",
    "AWS::AccountId": "123456789012",
    "AWS::URLSuffix": "amazonaws.com",
}


class Stack:
    """A template with parameters: what of it there is, and how it looks."""

    def __init__(self, template: Mapping[str, Any], given: Mapping[str, str]) -> None:
        assert set(given) <= set(template["Parameters"])
        values = {name: given.get(name, it.get("Default")) for name, it in template["Parameters"].items()}
        for name, declared in template["Parameters"].items():
            if declared["Type"] == "CommaDelimitedList":
                values[name] = str(values[name]).split(",")
        self._template = template
        self.resolver = Resolver(template, PSEUDO | values, self._lookup)
        self.resources = {
            name: resource
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self.resolver.condition(resource["Condition"])
        }

    def _lookup(self, name: str, attribute: str | None) -> str | None:
        found = name if attribute is None else f"{name}.{attribute}"
        return AURORA_SECRETS.get(found, {"InternalApiKey": "key"}.get(found, f"<{found}>"))

    def properties(self, name: str) -> dict[str, Any]:
        return self.resolver.resolve(self.resources[name]["Properties"])

    def globals(self) -> dict[str, Any]:
        return self.resolver.resolve(self._template["Globals"]["Function"])

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return {name: self.properties(name) for name, it in self.resources.items() if it["Type"] == kind}

    def variables(self, function: str) -> dict[str, str]:
        own = self.properties(f"{function}Function")["Environment"]["Variables"]
        return self.globals()["Environment"]["Variables"] | own

    def readable_secrets(self, function: str) -> set[str]:
        policies = self.properties(f"{function}Function")["Policies"]
        kind, action = "AWSSecretsManagerGetSecretValuePolicy", "secretsmanager:GetSecretValue"
        by_template = {policy[kind]["SecretArn"] for policy in policies if kind in policy}
        statements = [it for policy in policies if "Statement" in policy for it in policy["Statement"]]
        return by_template | {arn for it in statements if it["Action"] == action for arn in it["Resource"]}

    def refusals(self) -> list[str]:
        return [
            assertion["AssertDescription"]
            for rule in self._template["Rules"].values()
            if "RuleCondition" not in rule or self.resolver.resolve(rule["RuleCondition"])
            for assertion in rule["Assertions"]
            if not self.resolver.resolve(assertion["Assert"])
        ]


def deployed(**parameters: str) -> Stack:
    return Stack(TEMPLATE, parameters)


def database_stack(**parameters: str) -> Stack:
    """The nested database, with the parameters that the outer template gives it."""
    given = deployed(**AURORA, **parameters).properties("Database")["Parameters"]
    return Stack(DATABASE, {name: str(value) for name, value in given.items()})


def network_stack(**parameters: str) -> Stack:
    given = deployed(**AURORA, **parameters).properties("Network")["Parameters"]
    return Stack(NETWORK, {name: str(value) for name, value in given.items()})


# Concurrency and connections

CONNECTIONS_OF = {"Migrate": 3}  # its own, the one of a user that it makes, and that of the words' language
LEFT_TO_OTHERS = 20


@pytest.mark.parametrize("size", SIZES)
def test_all_functions_at_once_fit_the_connections_of_the_database(size: str) -> None:
    sizes = SIZES[size]
    opened = sum(sizes[function] * CONNECTIONS_OF.get(function, 1) for function in FUNCTIONS)
    assert opened <= sizes["Connections"] - LEFT_TO_OTHERS
    assert opened <= sizes["ConnectionsAlarm"] < sizes["Connections"]


@pytest.mark.parametrize("size", SIZES)
def test_the_database_that_is_made_takes_as_many_connections_as_were_counted_on(size: str) -> None:
    group = database_stack(Size=size).properties("ParameterGroup")["Parameters"]
    assert group["max_connections"] == str(SIZES[size]["Connections"])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_is_reserved_what_its_size_says_and_a_trial_reserves_nothing(function: str) -> None:
    for size in SIZES:
        found = deployed(Size=size).properties(f"{function}Function").get("ReservedConcurrentExecutions")
        assert found == (None if size == "trial" else SIZES[size][function])


def test_schema_and_clean_up_are_one_at_a_time() -> None:
    assert {sizes[function] for sizes in SIZES.values() for function in ("Migrate", "TtlCleanup")} == {1}


# Who may read which secret, and is which user of the database

USER_OF = dict.fromkeys(FUNCTIONS, "writer") | {"Query": "reader", "Migrate": "owner"}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("parameters", [OWN_WITH_USERS, AURORA], ids=["own", "aurora"])
def test_a_function_is_one_user_of_the_database_and_reads_its_secret_only(
    function: str, parameters: dict[str, str]
) -> None:
    stack = deployed(**parameters)
    assert stack.variables(function)["DATABASE_SECRET_ARN"] == USER_OF[function]
    of_database = stack.readable_secrets(function) - {"key"}
    assert of_database == ({"owner", "writer", "reader"} if function == "Migrate" else {USER_OF[function]})


def test_no_policy_is_chosen_by_a_choice_within_a_choice() -> None:
    """`sam validate` takes it, and `sam build` breaks on it."""
    for function in FUNCTIONS:
        for policy in TEMPLATE["Resources"][f"{function}Function"]["Properties"]["Policies"]:
            assert not [it for it in policy.get("Fn::If", []) if isinstance(it, dict) and "Fn::If" in it], function


@pytest.mark.parametrize(
    ("parameters", "models"),
    [
        ({"EmbeddingBackend": "ollama"}, None),
        ({"EmbeddingBackend": "ollama", "EmbeddingNextModel": "bge-m3"}, None),
        ({}, ["amazon.titan-embed-text-v2:0"]),
        ({"EmbeddingModel": "one"}, ["one"]),
        ({"EmbeddingModel": "one", "EmbeddingNextModel": "two"}, ["one", "two"]),
        ({"EmbeddingModel": "one", "EmbeddingNextDimensions": "512"}, ["one", "amazon.titan-embed-text-v2:0"]),
        ({"EmbeddingModel": "one", "EmbeddingNextBackend": "bedrock", "EmbeddingNextModel": "two"}, ["one", "two"]),
        ({"EmbeddingModel": "one", "EmbeddingNextBackend": "openai", "EmbeddingNextModel": "two"}, ["one"]),
    ],
)
def test_todays_model_may_be_invoked_and_the_one_that_follows(
    parameters: dict[str, str], models: list[str] | None
) -> None:
    stack = deployed(**parameters)
    assert ("EmbeddingPolicy" in stack.resources) == (models is not None)
    if models:
        (statement,) = stack.properties("EmbeddingPolicy")["PolicyDocument"]["Statement"]
        assert [arn.rpartition("/")[2] for arn in statement["Resource"]] == models


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_users_of_their_own_all_functions_are_the_owner(function: str) -> None:
    stack = deployed(**OWN)
    assert stack.variables(function)["DATABASE_SECRET_ARN"] == "owner"
    assert stack.readable_secrets(function) - {"key"} == {"owner"}


@pytest.mark.parametrize("parameters", [OWN, AURORA], ids=["own", "aurora"])
def test_the_internal_key_is_read_by_whoever_is_called_with_it_or_calls(parameters: dict[str, str]) -> None:
    stack = deployed(**parameters)
    assert {it for it in FUNCTIONS if "key" in stack.readable_secrets(it)} == {
        "Upsert",
        "Query",
        "Admin",
        "SyncTrigger",
    }
    assert stack.variables("Query")["INTERNAL_API_KEY_SECRET_ARN"] == "key"


def test_the_migration_is_told_which_users_to_make_and_nobody_else_is() -> None:
    stack = deployed(**AURORA)
    names = ("DATABASE_WRITER_SECRET_ARN", "DATABASE_READER_SECRET_ARN")
    assert [stack.variables("Migrate")[name] for name in names] == ["writer", "reader"]
    assert {stack.variables(it)[name] for it in FUNCTIONS if it != "Migrate" for name in names} == {""}


def test_a_local_run_is_told_of_no_secret() -> None:
    for function in FUNCTIONS:
        variables = deployed().variables(function)
        assert {value for name, value in variables.items() if name.endswith("_SECRET_ARN")} == {""}


# What is refused, and what it costs by default


@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({"InternalApiKeySecretArn": "key"}, "DatabaseSecretArn is required"),
        ({"DatabaseSecretArn": "owner"}, "InternalApiKeySecretArn is required"),
        (OWN | {"CreateDatabase": "yes"}, "give one of the two"),
        (OWN | {"QueriesGoToReaders": "yes"}, "QueriesGoToReaders=yes needs"),
        (AURORA | {"QueriesGoToReaders": "yes"}, "QueriesGoToReaders=yes needs"),
    ],
)
def test_a_deployment_that_cannot_work_is_refused(parameters: dict[str, str], refusal: str) -> None:
    (said,) = deployed(**parameters).refusals()
    assert refusal in said


@pytest.mark.parametrize("parameters", [OWN, AURORA, AURORA | {"QueriesGoToReaders": "yes", "DatabaseReaders": "1"}])
def test_a_deployment_that_works_is_not(parameters: dict[str, str]) -> None:
    assert deployed(**parameters).refusals() == []


def test_a_database_of_your_own_makes_no_network_and_no_nested_stack() -> None:
    stack = deployed(**OWN)
    assert stack.of_type("AWS::CloudFormation::Stack") == {}
    assert "VpcConfig" not in stack.globals()


def test_functions_go_into_subnets_of_your_own() -> None:
    config = deployed(**OWN, SubnetIds="subnet-1,subnet-2", SecurityGroupIds="sg-1").globals()["VpcConfig"]
    assert config == {"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}


def test_a_small_installation_has_no_nat_gateway_no_proxy_and_one_small_instance() -> None:
    network, database = network_stack(), database_stack()
    kinds = {it["Type"] for it in (network.resources | database.resources).values()}
    assert not kinds & {"AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::RDS::DBProxy", "AWS::IAM::Role"}
    assert list(database.of_type("AWS::RDS::DBInstance")) == ["Writer"]
    scaling = database.properties("Cluster")["ServerlessV2ScalingConfiguration"]
    assert float(scaling["MinCapacity"]) <= 0.5
    assert TEMPLATE["Parameters"]["DatabaseMinCapacity"]["MinValue"] == 0


def endpoints(stack: Stack) -> set[str]:
    return {it["ServiceName"].rpartition(".")[2] for it in stack.of_type("AWS::EC2::VPCEndpoint").values()}


def test_functions_reach_the_services_that_they_use_without_leaving_the_network() -> None:
    needed = {"s3", "secretsmanager", "events", "lambda"}
    assert endpoints(network_stack()) == needed | {"bedrock-runtime"}
    assert endpoints(network_stack(EmbeddingBackend="ollama")) == needed
    assert endpoints(network_stack(Egress="nat")) == {"s3"}
    for endpoint in network_stack().of_type("AWS::EC2::VPCEndpoint").values():
        if endpoint.get("VpcEndpointType") == "Interface":
            assert endpoint["PrivateDnsEnabled"] is True
            assert len(endpoint["SubnetIds"]) == 1


def test_egress_by_nat_leads_private_subnets_out_and_nobody_in() -> None:
    network = network_stack(Egress="nat")
    assert network.properties("PrivateRoute")["NatGatewayId"] == "<NatGateway>"
    assert "SecurityGroupIngress" not in network.properties("FunctionSecurityGroup")
    assert network.properties("NatGateway")["SubnetId"] == "<PublicSubnet>"


# The database


def test_the_database_is_encrypted_at_rest_and_on_the_way_and_reachable_by_functions_only() -> None:
    database = database_stack()
    assert database.properties("Cluster")["StorageEncrypted"] is True
    assert database.properties("ParameterGroup")["Parameters"]["rds.force_ssl"] == "1"
    assert all(not it["PubliclyAccessible"] for it in database.of_type("AWS::RDS::DBInstance").values())
    (ingress,) = database.of_type("AWS::EC2::SecurityGroupIngress").values()
    assert ingress["SourceSecurityGroupId"] == "<Network.Outputs.FunctionSecurityGroupId>"
    assert "SecurityGroupIngress" not in database.properties("SecurityGroup")


def test_the_database_has_pgvector_and_scales_by_itself() -> None:
    database = database_stack(Size="medium", DatabaseMinCapacity="0")
    cluster = database.properties("Cluster")
    assert cluster["Engine"] == "aurora-postgresql"
    assert tuple(map(int, cluster["EngineVersion"].split("."))) >= (16, 8)  # from here on with pgvector 0.8
    assert database.properties("ParameterGroup")["Family"] == f"aurora-postgresql{cluster['EngineVersion'][:2]}"
    scaling = cluster["ServerlessV2ScalingConfiguration"]
    assert scaling == {"MinCapacity": "0", "MaxCapacity": str(SIZES["medium"]["MaxCapacity"])}
    assert database.properties("Writer")["DBInstanceClass"] == "db.serverless"


def test_the_database_outlives_its_stack_as_a_snapshot_and_is_protected() -> None:
    cluster = DATABASE["Resources"]["Cluster"]
    assert (cluster["DeletionPolicy"], cluster["UpdateReplacePolicy"]) == ("Snapshot", "Snapshot")
    assert database_stack().properties("Cluster")["DeletionProtection"] == "true"
    assert database_stack().properties("Cluster")["BackupRetentionPeriod"] >= 7


def test_what_documents_say_is_not_in_the_databases_log() -> None:
    parameters = database_stack().properties("ParameterGroup")["Parameters"]
    assert parameters["log_statement"] == "none"
    assert {value for name, value in parameters.items() if name.startswith("log_parameter_max")} == {"0"}


def test_each_user_of_the_database_has_a_secret_with_a_password_of_its_own() -> None:
    secrets = database_stack().of_type("AWS::SecretsManager::Secret")
    users = {
        json.loads(it["GenerateSecretString"]["SecretStringTemplate"].replace("<Cluster.Endpoint.Port>", "5432"))[
            "username"
        ]
        for it in secrets.values()
    }
    assert users == {"knowledge_owner", "knowledge_writer", "knowledge_reader"}
    assert all(it["GenerateSecretString"]["PasswordLength"] >= 32 for it in secrets.values())


@pytest.mark.parametrize("readers", [0, 1, 2])
def test_as_many_readers_as_asked_for(readers: int) -> None:
    instances = database_stack(DatabaseReaders=str(readers)).of_type("AWS::RDS::DBInstance")
    assert len(instances) == 1 + readers


def test_only_queries_go_to_readers_and_only_when_asked_to() -> None:
    readers = deployed(**AURORA, DatabaseReaders="1", QueriesGoToReaders="yes")
    hosts = {function: readers.variables(function)["DATABASE_HOST"] for function in FUNCTIONS}
    assert hosts.pop("Query") == "<Database.Outputs.ReaderHost>"
    assert set(hosts.values()) == {""}
    assert deployed(**AURORA, DatabaseReaders="1").variables("Query")["DATABASE_HOST"] == ""


def test_a_proxy_stands_before_everybody_but_the_owner() -> None:
    stack = deployed(**AURORA, DatabaseProxy="yes")
    hosts = {function: stack.variables(function)["DATABASE_HOST"] for function in FUNCTIONS}
    assert hosts.pop("Migrate") == ""
    assert set(hosts.values()) == {"<Database.Outputs.ProxyHost>"}
    database = database_stack(DatabaseProxy="yes")
    proxy = database.properties("RdsProxy")
    assert proxy["RequireTLS"] is True
    assert {auth["SecretArn"] for auth in proxy["Auth"]} == {"<WriterSecret>", "<ReaderSecret>"}


@pytest.mark.parametrize(("stack", "template"), [("Network", NETWORK), ("Database", DATABASE)])
def test_a_nested_stack_is_given_what_it_asks_for_and_gives_what_is_used(stack: str, template: dict[str, Any]) -> None:
    nested = TEMPLATE["Resources"][stack]["Properties"]
    assert parse_yaml((CHECKOUT / nested["TemplateURL"]).read_text()) == template
    required = {name for name, declared in template["Parameters"].items() if "Default" not in declared}
    assert required <= set(nested["Parameters"]) <= set(template["Parameters"])
    used = set(re.findall(rf"{stack}\.Outputs\.(\w+)|\"{stack}\", \"Outputs\.(\w+)\"", json.dumps(TEMPLATE)))
    assert {first or second for first, second in used} <= set(template["Outputs"])


# Events that nobody handled, alarms, the dashboard


def test_whatever_is_invoked_without_waiting_keeps_what_it_did_not_handle() -> None:
    stack = deployed(**OWN)
    for function in ("SyncTrigger", "TtlCleanup"):
        config = stack.properties(f"{function}Function")["EventInvokeConfig"]["DestinationConfig"]
        assert config["OnFailure"]["Destination"] == "<LostEvents.Arn>"
    once = stack.properties("MigrateOnce")
    assert (once["FunctionName"], once["Qualifier"]) == ("<MigrateFunction>", "$LATEST")
    assert once["MaximumRetryAttempts"] == 0  # CloudFormation has been told; it rolls back
    assert once["DestinationConfig"]["OnFailure"]["Destination"] == "<LostEvents.Arn>"


def alarmed(alarm: dict[str, Any]) -> set[str]:
    """The metrics that an alarm looks at, as namespace and name."""
    if "Metrics" not in alarm:
        return {f"{alarm['Namespace']} {alarm['MetricName']}"}
    metrics = [it["MetricStat"]["Metric"] for it in alarm["Metrics"] if "MetricStat" in it]
    return {f"{metric['Namespace']} {metric['MetricName']}" for metric in metrics}


ALARMS = {
    "QueriesFail": {
        "AWS/ApiGateway 5xx",
        "AWS/ApiGateway Count",
        "AWS/Lambda Url5xxCount",
        "AWS/Lambda UrlRequestCount",
    },
    "QueriesAreSlow": {"AWS/Lambda Duration"},
    "QueriesAreTurnedAway": {"AWS/Lambda Throttles"},
    "SyncsFail": {"spot knowledge_sync_runs_total"},
    "EventsAreLost": {"AWS/SQS ApproximateNumberOfMessagesVisible"},
    "ConnectionsRunOut": {"AWS/RDS DatabaseConnections"},
    "CapacityIsUsedUp": {"AWS/RDS ACUUtilization"},
}


def all_alarms(**parameters: str) -> dict[str, dict[str, Any]]:
    kind = "AWS::CloudWatch::Alarm"
    return deployed(**AURORA, **parameters).of_type(kind) | database_stack(**parameters).of_type(kind)


def test_alarms_watch_errors_latency_lost_events_syncs_connections_and_capacity() -> None:
    assert {name: alarmed(alarm) for name, alarm in all_alarms().items()} == ALARMS
    slow = all_alarms(SlowQueryMs="700")["QueriesAreSlow"]
    assert (slow["ExtendedStatistic"], slow["Threshold"]) == ("p95", "700")


def test_every_alarm_says_what_to_do_reaches_somebody_and_stays_quiet_when_nothing_happens() -> None:
    for name, alarm in all_alarms(AlarmTopicArn="topic").items():
        assert alarm["AlarmActions"] == ["topic"], name
        assert alarm["TreatMissingData"] == "notBreaching", name
        assert len(alarm["AlarmDescription"]) > 40, name
    assert not [name for name, alarm in all_alarms().items() if "AlarmActions" in alarm]


def test_each_value_that_an_alarm_computes_is_computed_from_metrics_that_it_has() -> None:
    for name, alarm in all_alarms().items():
        ids = {it["Id"] for it in alarm.get("Metrics", [])}
        used = {
            word for it in alarm.get("Metrics", []) for word in re.findall(r"\b[a-z]\w*\b", it.get("Expression", ""))
        }
        assert used <= ids, name
        assert sum(it.get("ReturnData", True) for it in alarm.get("Metrics", [])) == (1 if ids else 0), name


def dashboard(**parameters: str) -> list[dict[str, Any]]:
    body = deployed(**parameters).properties("Dashboard")["DashboardBody"]
    assert not isinstance(body, Unresolved)
    return json.loads(body)["widgets"]


def drawn(widgets: list[dict[str, Any]]) -> set[str]:
    text = json.dumps([widget["properties"]["metrics"] for widget in widgets])
    return set(re.findall(r"knowledge_\w+|(?<=\", \")[A-Z0-9]\w+(?=\")", text))


def test_the_dashboard_shows_what_an_operator_looks_for() -> None:
    assert drawn(dashboard(**AURORA)) >= {
        "knowledge_query_duration_seconds",
        "knowledge_embed_duration_seconds",
        "knowledge_embed_cache_hits_total",
        "knowledge_embed_cache_misses_total",
        "knowledge_upserts_total",
        "knowledge_source_docs",
        "knowledge_source_age_seconds",
        "knowledge_sync_runs_total",
        "knowledge_cleanup_deleted_total",
        "5xx",
        "ApproximateNumberOfMessagesVisible",
        "DatabaseConnections",
    }
    latency = dashboard(**OWN)[0]["properties"]["metrics"]
    assert [row[-1]["stat"] for row in latency] == ["p50", "p95", "p99"]
    assert "DatabaseConnections" not in drawn(dashboard(**OWN))  # whose cluster that is, the stack does not know


SEARCHED = r"SEARCH\('\{\"[\w/-]+\"(,\w+)+\} MetricName=\"\w+\"', '(Sum|Maximum|p\d\d)', \d+\)"
COMPUTED = r"[\d\s()*/+a-z]+"


@pytest.mark.parametrize("parameters", [OWN, AURORA], ids=["own", "aurora"])
def test_the_dashboard_keeps_to_what_a_local_console_can_draw(parameters: dict[str, str]) -> None:
    """docs/adr/0012-stacks-of-aws.md says what that is."""
    for widget in dashboard(**parameters):
        assert widget["type"] == "metric"
        assert widget["properties"].keys() == {"title", "region", "view", "period", "metrics"}
        rows = widget["properties"]["metrics"]
        ids = {row[-1]["id"] for row in rows if "id" in row[-1]}
        for row in rows:
            options = row[-1]
            if len(row) == 1:
                expression = options["expression"]
                assert re.fullmatch(SEARCHED, expression) or re.fullmatch(COMPUTED, expression), expression
                if not expression.startswith("SEARCH"):
                    assert set(re.findall(r"[a-z]+", expression)) <= ids
            else:
                assert len(row) % 2 == 1
                assert options.keys() <= {"stat", "label", "id", "visible"}
                assert all(isinstance(part, str) for part in row[:-1])


@pytest.mark.parametrize("parameters", [OWN, AURORA], ids=["own", "aurora"])
def test_no_two_widgets_lie_on_each_other(parameters: dict[str, str]) -> None:
    cells = [
        (x, y)
        for widget in dashboard(**parameters)
        for x in range(widget["x"], widget["x"] + widget["width"])
        for y in range(widget["y"], widget["y"] + widget["height"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_metrics_of_this_stack_are_told_from_anothers() -> None:
    assert deployed().variables("Query")["POWERTOOLS_METRICS_NAMESPACE"] == "spot"


# What whoever deploys, asks and operates needs


def test_whoever_may_ask_through_the_signed_url_may_do_nothing_else() -> None:
    statements = deployed().properties("AskPolicy")["PolicyDocument"]["Statement"]
    assert {it["Action"] for it in statements} == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}
    assert {it["Resource"] for it in statements} == {"<QueryFunction.Arn>"}
    assert all("Condition" in it for it in statements)  # not by the API of Lambda, which no key protects


def test_outputs_name_what_the_sdk_and_the_command_need() -> None:
    needed = {"KnowledgeUrl", "QueryUrl", "InternalApiKeySecretArn", "SyncTriggerArn", "LostEventsArn", "AskPolicyArn"}
    assert needed <= TEMPLATE["Outputs"].keys()


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_the_stages_give_parameters_that_exist_and_are_not_refused(stage: str) -> None:
    config = tomllib.loads((CHECKOUT / "samconfig.toml").read_text())[stage]["deploy"]["parameters"]
    given = dict(pair.split("=", 1) for pair in config["parameter_overrides"])
    assert deployed(**given).refusals() == []
    for name, value in given.items():
        allowed = [str(it) for it in TEMPLATE["Parameters"][name].get("AllowedValues", [value])]
        assert value in allowed, name


def test_every_check_that_is_skipped_says_why() -> None:
    for path in (
        CHECKOUT / "template.yaml",
        *(CHECKOUT / "infra" / f"{name}.yaml" for name in ("network", "database")),
    ):
        skips = re.findall(r"checkov:skip=(\w+)(.*)", path.read_text())
        assert all(re.fullmatch(r": \S.{5,}", reason) for _, reason in skips), path
