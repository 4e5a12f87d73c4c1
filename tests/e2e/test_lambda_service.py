"""The local Lambda service as its users meet it: a process that is given a template, HTTP requests and signals."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import httpx
import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

FUNCTIONS = Path(__file__).with_name("fixtures_functions")
TEMPLATE = FUNCTIONS / "template.yaml"
JSON = {"content-type": "application/json"}
REPOSITORY = Path(__file__).parents[2]
GENEROUS_S = 20.0


@dataclass
class Service:
    process: subprocess.Popen[str]
    url: str
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8")

    def invoke(self, function: str, event: Any = None, **headers: str) -> httpx.Response:
        content = b"" if event is None else json.dumps(event).encode()
        url = f"{self.url}/2015-03-31/functions/{function}/invocations"
        return httpx.post(url, content=content, headers=headers, timeout=GENEROUS_S)

    def post(self, path: str, body: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=GENEROUS_S)

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(GENEROUS_S)


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """What `condition` gives as soon as it is true."""
    deadline = time.monotonic() + GENEROUS_S
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what}")


@contextmanager
def running(folder: Path, *arguments: str, template: Path = TEMPLATE) -> Iterator[Service]:
    log_path = folder / "service.log"
    command = [sys.executable, "-m", "local.lambda_service", "--template", str(template), "--port", "0"]
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "AKIAREAL", "AWS_PROFILE": "production", "OWN_SECRET": "secret"}
    with subprocess.Popen(
        [*command, "--log-file", str(log_path), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            ready = re.fullmatch(r"ready (http://127\.0\.0\.1:\d+)\n", process.stdout.readline())
            assert ready is not None
            yield Service(process, ready[1], log_path)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(GENEROUS_S)
                except subprocess.TimeoutExpired:
                    process.kill()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service"), "--no-reload") as service:
        yield service


@pytest.fixture
def lambda_client(service: Service) -> Iterator[Any]:
    client = boto3.client(
        "lambda",
        endpoint_url=service.url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=GENEROUS_S),
    )
    yield client
    client.close()


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200
    assert response.headers["x-amz-function-error"] == "Unhandled"
    return response.json()


# Answers


def test_an_http_route_reaches_its_function(service: Service) -> None:
    response = httpx.put(
        f"{service.url}/echo/a%20b/c?x=1&x=2",
        content=b'{"n": 1}',
        headers={**JSON, "cookie": "k=v"},
        timeout=GENEROUS_S,
    )
    assert response.status_code == 200
    assert response.headers["x-function"] == "EchoFunction"
    assert response.headers["content-type"] == "application/json"
    assert response.headers.get_list("set-cookie") == ["one=1", "two=2"]
    event = response.json()["event"]
    assert event["routeKey"] == "ANY /echo/{proxy+}"
    assert event["rawPath"] == "/echo/a b/c"
    assert event["rawQueryString"] == "x=1&x=2"
    assert event["pathParameters"] == {"proxy": "a b/c"}
    assert event["queryStringParameters"] == {"x": "1,2"}
    assert event["cookies"] == ["k=v"]
    assert (event["body"], event["isBase64Encoded"]) == ('{"n": 1}', False)
    assert event["requestContext"]["http"]["method"] == "PUT"
    assert response.json()["layer"] == "from the layer"


def test_paths_are_decoded_by_the_http_api_and_kept_by_a_function_url(service: Service) -> None:
    through_api = httpx.delete(f"{service.url}/items/x%3Fy", timeout=GENEROUS_S).json()["event"]
    through_url = httpx.delete(f"{service.url}/lambda-url/EchoFunction/items/x%3Fy", timeout=GENEROUS_S).json()["event"]
    assert (through_api["rawPath"], through_api["pathParameters"]) == ("/items/x", {"id": "x?y"})
    assert through_url["rawPath"] == "/items/x%3Fy"
    assert httpx.delete(f"{service.url}/items/50%25", timeout=GENEROUS_S).status_code == 400


def test_a_function_url_needs_one_in_the_template(service: Service) -> None:
    assert httpx.get(f"{service.url}/lambda-url/EchoFunction", timeout=GENEROUS_S).json()["event"]["rawPath"] == "/"
    for path in ("/lambda-url/HogFunction/", "/lambda-url/Nobody/", "/lambda-url/"):
        assert httpx.get(service.url + path).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nothing"), ("POST", "/items"), ("HEAD", "/items"), ("OPTIONS", "/items"), ("GET", "/")],
)
def test_what_has_no_route_is_not_found(service: Service, method: str, path: str) -> None:
    response = httpx.request(method, service.url + path)
    assert response.status_code == 404
    assert response.text == ("" if method == "HEAD" else '{"message":"Not Found"}')


def test_the_same_event_gives_the_same_answer_in_process_and_through_the_service(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = httpx.post(f"{service.url}/echo/x?y=%C3%A9", json={"text": "λ"}, timeout=GENEROUS_S)
    event = answered.json()["event"]
    monkeypatch.syspath_prepend(FUNCTIONS / "shared_layer")
    specification = importlib.util.spec_from_file_location("echo_app", FUNCTIONS / "echo" / "app.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    context = SimpleNamespace(function_name="EchoFunction", get_remaining_time_in_millis=lambda: 1)
    in_process = module.handler(event, context)
    assert in_process["body"] == answered.text
    assert in_process == json.loads(service.invoke("EchoFunction", event).text)


def test_a_worker_finds_only_lambdas_environment(service: Service) -> None:
    answer = service.invoke("EnvironmentFunction", {}).json()
    variables = answer["variables"]
    assert variables["GREETING"] == "hello"
    assert variables["FLAG"] == "off"
    assert variables["AWS_LAMBDA_FUNCTION_NAME"] == "EnvironmentFunction"
    assert variables["AWS_ACCESS_KEY_ID"] == "local"
    assert not {"AWS_PROFILE", "OWN_SECRET", "HOME", "DATABASE_HOST"} & set(variables)
    assert answer["folder"] == answer["path"][0] == str(FUNCTIONS / "environment")
    assert answer["memory"] == "256"
    assert answer["arn"] == "arn:aws:lambda:us-east-1:123456789012:function:EnvironmentFunction"
    assert "EnvironmentFunction: DATABASE_HOST is left out" in service.log


def test_an_environment_file_and_parameters_change_declared_variables(tmp_path: Path) -> None:
    env_file = tmp_path / "env.json"
    env_file.write_text(json.dumps({"Parameters": {"FLAG": "on"}, "EnvironmentFunction": {"DATABASE_HOST": "db"}}))
    with running(tmp_path, "--env-file", str(env_file), "--parameter", "Greeting=moin", "--no-reload") as service:
        variables = service.invoke("EnvironmentFunction", {}).json()["variables"]
    assert (variables["FLAG"], variables["DATABASE_HOST"], variables["GREETING"]) == ("on", "db", "moin")


def test_answers_leave_at_once(service: Service) -> None:
    with httpx.Client(timeout=GENEROUS_S) as client:
        times_s = [client.get(f"{service.url}/nothing").elapsed.total_seconds() for _ in range(30)]
    assert min(times_s) < 0.03  # 0.04 is what Nagle's algorithm and delayed acknowledgements make of it together


# Failures of functions


def test_a_function_that_takes_too_long_is_killed(service: Service) -> None:
    started = time.monotonic()
    response = service.invoke("SleeperFunction", {"seconds": 30})
    assert 1.0 <= time.monotonic() - started < 10
    request_id = response.headers["x-amzn-requestid"]
    assert error_of(response) == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": f"RequestId: {request_id} Error: Task timed out after 1.00 seconds",
    }
    assert f"Z {request_id} Task timed out after 1.00 seconds" in service.log
    assert re.search(rf"REPORT RequestId: {request_id}\tDuration: \d\d\d\d\.\d\d ms\t.*Status: timeout", service.log)
    assert service.invoke("SleeperFunction", {"seconds": 0}).json()["slept"] == 0


def test_a_time_out_through_http(service: Service) -> None:
    through_api = service.post("/sleep", {"seconds": 30})
    assert (through_api.status_code, through_api.text) == (500, '{"message":"Internal Server Error"}')
    through_url = service.post("/lambda-url/SleeperFunction/", {"seconds": 30})
    assert (through_url.status_code, through_url.text) == (502, "Internal Server Error")


def test_an_http_api_waits_no_longer_than_its_own_time_out(service: Service) -> None:
    ended = service.log.count("END RequestId")
    response = service.post("/impatient", {"seconds": 1})
    assert (response.status_code, response.text) == (503, '{"message":"Service Unavailable"}')
    eventually(lambda: service.log.count("END RequestId") > ended, "the function runs to its end all the same")
    assert "Status" not in service.log.rpartition("REPORT")[2]


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("exit", "Runtime exited with error: exit status 7"),
        ("exit quietly", "Runtime exited without providing a reason"),
        ("kill", "Runtime exited with error: signal: killed"),
        ("crash", "Runtime exited with error: signal: segmentation fault"),
    ],
)
def test_a_process_that_ends(service: Service, way: str, reason: str) -> None:
    response = service.invoke("CrasherFunction", {"way": way})
    request_id = response.headers["x-amzn-requestid"]
    assert error_of(response) == {
        "errorType": "Runtime.ExitError",
        "errorMessage": f"RequestId: {request_id} Error: {reason}",
    }
    assert f"CrasherFunction {request_id} about to {way}\n" in service.log
    assert f"RequestId: {request_id} Error: {reason}" in service.log
    assert service.invoke("CrasherFunction", {"way": "survive"}).json() == "survived"


def test_an_exception_is_answered_and_its_traceback_logged(service: Service) -> None:
    response = service.invoke("CrasherFunction", {"way": "raise"})
    error = error_of(response)
    assert (error["errorType"], error["errorMessage"]) == ("OwnError", "as asked")
    assert error["requestId"] == response.headers["x-amzn-requestid"]
    assert 'raise OwnError("as asked")' in service.log
    assert service.post("/crash", {"way": "raise"}).text == '{"message":"Internal Server Error"}'


def test_a_function_that_uses_more_memory_than_it_has(service: Service) -> None:
    started = time.monotonic()
    error = error_of(service.invoke("HogFunction", {"megabytes": 200, "seconds": 9}))
    assert time.monotonic() - started < 8
    assert error["errorType"] == "Runtime.OutOfMemory"
    assert error["errorMessage"].endswith("Error: Runtime exited with error: signal: killed")
    assert re.search(r"used \d+ MB of the 128 MB of MemorySize", service.log)
    assert service.invoke("HogFunction", {"megabytes": 10}).json() == 10 * 1024 * 1024


def test_a_handler_that_cannot_be_imported(service: Service) -> None:
    error = error_of(service.invoke("BrokenFunction", {}))
    assert error["errorType"] == "Runtime.ImportModuleError"
    assert error["errorMessage"] == "Unable to import module 'app': No module named 'no_such_module'"
    assert re.search(r'File ".*/broken/helper\.py", line 1', service.log)
    tries = service.log.count("INIT_REPORT")
    eventually(lambda: service.invoke("BrokenFunction") and service.log.count("INIT_REPORT") > tries, "another try")


def test_an_answer_that_is_no_json(service: Service) -> None:
    error = error_of(service.invoke("UnserialisableFunction", {}))
    assert error["errorType"] == "Runtime.MarshalError"


def test_an_answer_that_is_too_large(service: Service) -> None:
    error = error_of(service.invoke("CrasherFunction", {"way": "answer too much"}))
    assert error["errorType"] == "Function.ResponseSizeTooLarge"
    assert service.invoke("CrasherFunction", {"way": "survive"}).json() == "survived"


def test_an_answer_that_is_no_http_response(service: Service) -> None:
    assert service.post("/crash", {"way": "answer nonsense"}).status_code == 500
    assert service.post("/lambda-url/CrasherFunction/", {"way": "answer nonsense"}).status_code == 502


def test_requests_that_are_too_large(service: Service) -> None:
    large, larger = b"x" * (7 * 1024 * 1024), b"x" * (10 * 1024 * 1024 + 1)
    for body in (large, larger):
        response = httpx.post(
            f"{service.url}/echo/x", content=body, headers={"content-type": "text/plain"}, timeout=GENEROUS_S
        )
        assert (response.status_code, response.text) == (413, '{"message":"Request Entity Too Large"}')
    assert httpx.post(f"{service.url}/lambda-url/EchoFunction/", content=large, timeout=GENEROUS_S).status_code == 413
    assert service.invoke("EchoFunction", large.decode()).status_code == 413
    five_mb = "x" * (5 * 1024 * 1024)
    assert service.invoke("TalkerFunction", {"filler": five_mb}).json() == 0


# Many at once, and processes that die


def test_many_requests_at_once_share_a_few_workers(service: Service) -> None:
    def ask(number: int) -> tuple[str, int]:
        answer = service.post("/patient", {"seconds": 0.02, "number": number})
        assert answer.status_code == 200
        return answer.json()["request_id"], answer.json()["pid"]

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(ask, range(50)))
    assert len({request_id for request_id, _ in answers}) == 50
    assert len({pid for _, pid in answers}) <= 4


def test_reserved_concurrency_throttles(service: Service) -> None:
    with ThreadPoolExecutor(1) as threads:
        busy = threads.submit(service.invoke, "SingleFunction", {"seconds": 2})
        eventually(lambda: re.search(r"SingleFunction \S+ START", service.log), "the first invocation runs")
        throttled = service.invoke("SingleFunction", {"seconds": 0})
        assert throttled.status_code == 429
        assert throttled.headers["x-amzn-errortype"] == "TooManyRequestsException"
        assert throttled.json() == {
            "Type": "User",
            "message": "Rate Exceeded.",
            "Reason": "ReservedFunctionConcurrentInvocationLimitExceeded",
        }
        assert service.post("/single", {"seconds": 0}).status_code == 503
        assert service.post("/lambda-url/SingleFunction/", {"seconds": 0}).status_code == 429
        assert busy.result().json()["slept"] == 2
    assert service.post("/single", {"seconds": 0}).json()["slept"] == 0


def test_too_many_waiting_invocations_are_throttled(tmp_path: Path) -> None:
    arguments = ("--no-reload", "--max-workers", "1", "--max-waiting", "1", "--drain-timeout", "0.1")
    with running(tmp_path, *arguments) as service:
        for _ in ("one runs", "one waits"):
            event = service.invoke("PatientFunction", {"seconds": 15}, **{"x-amz-invocation-type": "Event"})
            assert event.status_code == 202
        throttled = service.invoke("PatientFunction", {"seconds": 0})
        assert throttled.status_code == 429
        assert throttled.json()["Reason"] == "ConcurrentInvocationLimitExceeded"


def test_a_worker_that_dies_in_its_sleep_is_replaced_unnoticed(service: Service) -> None:
    first = service.invoke("PatientFunction", {"seconds": 0}).json()["pid"]
    for worker in service.workers():
        worker.kill()
    second = service.invoke("PatientFunction", {"seconds": 0}).json()["pid"]
    assert second != first


def test_a_worker_that_is_killed_at_work(service: Service) -> None:
    with ThreadPoolExecutor(1) as threads:
        before = service.log.count("START RequestId")
        pending = threads.submit(service.invoke, "PatientFunction", {"seconds": 15})
        eventually(lambda: service.log.count("START RequestId") > before, "the invocation runs")
        for worker in service.workers():
            worker.kill()
        error = error_of(pending.result())
    assert error["errorMessage"].endswith("Runtime exited with error: signal: killed")


def test_no_dead_process_is_left_behind(service: Service) -> None:
    error_of(service.invoke("CrasherFunction", {"way": "exit"}))
    error_of(service.invoke("SleeperFunction", {"seconds": 30}))
    eventually(
        lambda: all(worker.status() != psutil.STATUS_ZOMBIE for worker in service.workers()), "the dead are buried"
    )


def test_what_a_worker_started_ends_with_it(service: Service) -> None:
    error_of(service.invoke("CrasherFunction", {"way": "start a process and exit"}))
    started = re.search(r"started (\d+)\n", service.log)
    assert started is not None
    eventually(lambda: has_ended(int(started[1])), "the process that the worker started ends")


def test_a_client_that_hangs_up_does_not_end_the_invocation(service: Service) -> None:
    ended = service.log.count("END RequestId")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{service.url}/patient", json={"seconds": 0.5}, timeout=0.2)
    eventually(lambda: service.log.count("END RequestId") > ended, "the invocation ends")
    assert "Status" not in service.log.rpartition("REPORT")[2]


# Lambda's own API


def test_boto3_invokes(lambda_client: Any) -> None:
    for name in (
        "EchoFunction",
        "arn:aws:lambda:us-east-1:123456789012:function:EchoFunction",
        "123:function:EchoFunction",
    ):
        response = lambda_client.invoke(FunctionName=name, Payload=b'{"a": 1}')
        assert (response["StatusCode"], response["ExecutedVersion"]) == (200, "$LATEST")
        assert "FunctionError" not in response
        assert json.load(response["Payload"])["event"] == {"a": 1}
    assert json.load(lambda_client.invoke(FunctionName="EchoFunction")["Payload"])["event"] == {}


def test_boto3_sees_errors_and_logs(lambda_client: Any) -> None:
    response = lambda_client.invoke(FunctionName="TalkerFunction", LogType="Tail", Payload=b'{"lines": 2}')
    request_id = response["ResponseMetadata"]["RequestId"]
    log = base64.b64decode(response["LogResult"]).decode().splitlines()
    start = log.index(f"START RequestId: {request_id} Version: $LATEST")
    printed, logged, mixed, last, end, report = log[start + 1 :]
    assert (printed, mixed, last) == ("printed", "on stderr, without a line endline 0", "line 1")
    assert logged.startswith("[INFO]")
    assert logged.endswith(f"{request_id}\tlogged")
    assert end == f"END RequestId: {request_id}"
    assert report.startswith(f"REPORT RequestId: {request_id}\tDuration: ")
    failed = lambda_client.invoke(FunctionName="CrasherFunction", Payload=b'{"way": "raise"}')
    assert failed["FunctionError"] == "Unhandled"


def test_what_a_function_prints_stands_in_its_own_log(service: Service) -> None:
    for lines in range(1, 30):
        request_id = service.invoke("TalkerFunction", {"lines": lines}).headers["x-amzn-requestid"]
        log = re.findall(rf"^TalkerFunction {request_id} (.*)$", service.log, re.MULTILINE)
        end = log.index(f"END RequestId: {request_id}")
        assert log[end - 1].endswith(f"line {lines - 1}")
        assert len(log) == end + 2


def test_boto3_is_refused(lambda_client: Any) -> None:
    with pytest.raises(lambda_client.exceptions.ResourceNotFoundException, match="Nobody"):
        lambda_client.invoke(FunctionName="Nobody")
    with pytest.raises(lambda_client.exceptions.InvalidRequestContentException):
        lambda_client.invoke(FunctionName="EchoFunction", Payload=b"{")
    with pytest.raises(ClientError, match="InvalidParameterValueException"):
        lambda_client.invoke(FunctionName="EchoFunction", InvocationType="Sometimes")
    assert lambda_client.invoke(FunctionName="EchoFunction", InvocationType="DryRun")["StatusCode"] == 204


def test_a_web_page_may_not_invoke_functions(service: Service) -> None:
    refused = service.invoke("EchoFunction", {}, origin="http://page.example")
    assert (refused.status_code, refused.headers["x-amzn-errortype"]) == (403, "AccessDeniedException")


def test_asynchronous_events(service: Service, lambda_client: Any) -> None:
    accepted = lambda_client.invoke(FunctionName="TalkerFunction", InvocationType="Event", Payload=b'{"lines": 1}')
    assert accepted["StatusCode"] == 202
    request_id = accepted["ResponseMetadata"]["RequestId"]
    eventually(lambda: f"REPORT RequestId: {request_id}" in service.log, "the event is handled")
    failing = lambda_client.invoke(FunctionName="CrasherFunction", InvocationType="Event", Payload=b'{"way": "exit"}')
    lost = f"CrasherFunction {failing['ResponseMetadata']['RequestId']}: event given up after 1 attempt(s)"
    eventually(lambda: lost in service.log, "the event is given up")


# Hot reload


@pytest.fixture
def own_functions(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FUNCTIONS, tmp_path / "functions", ignore=shutil.ignore_patterns("__pycache__")))


def test_code_changes_take_effect(own_functions: Path, tmp_path: Path) -> None:
    layer = own_functions / "shared_layer" / "shared_words.py"
    handler = own_functions / "sleeper" / "app.py"
    with running(tmp_path, template=own_functions / "template.yaml") as service:

        def layer_says(answer: str) -> bool:
            return service.invoke("EchoFunction", {}).json()["layer"] == answer

        assert layer_says("from the layer")
        layer.write_text('ANSWER = "FROM THE LAYER"\n')
        eventually(lambda: layer_says("FROM THE LAYER"), "new layer")
        newer = layer.with_suffix(".new")
        newer.write_text('ANSWER = "From the Layer"\n')
        os.utime(newer, ns=(layer.stat().st_atime_ns, layer.stat().st_mtime_ns))
        newer.rename(layer)  # same size, same time: Python takes the bytecode of the old one for this one's
        eventually(lambda: layer_says("From the Layer"), "newer layer")
        assert "shared_words.py changed: new code for EchoFunction\n" in service.log  # and for no other function

        with ThreadPoolExecutor(1) as threads:
            busy = threads.submit(service.invoke, "PatientFunction", {"seconds": 2})
            eventually(lambda: re.search(r"PatientFunction \S+ START", service.log), "the invocation runs")
            handler.write_text(handler.read_text().replace('"slept":', '"rested":'))
            eventually(lambda: "rested" in service.invoke("SleeperFunction", {"seconds": 0}).json(), "new handler")
            assert busy.result().json()["slept"] == 2  # what was running ran to its end on the old code
        assert service.invoke("PatientFunction", {"seconds": 0}).json()["rested"] == 0

        handler.write_text("def handler(event, context:\n")
        eventually(lambda: "errorType" in service.invoke("SleeperFunction", {}).json(), "broken handler")
        assert service.invoke("SleeperFunction", {}).json()["errorType"] == "Runtime.UserCodeSyntaxError"
        handler.write_text("def handler(event, context):\n    return 'mended'\n")
        eventually(lambda: service.invoke("SleeperFunction", {}).json() == "mended", "mended handler")


def test_template_changes_take_effect(own_functions: Path, tmp_path: Path) -> None:
    template = own_functions / "template.yaml"
    original = template.read_text()
    with running(tmp_path, template=template) as service:
        assert httpx.get(f"{service.url}/things", timeout=GENEROUS_S).status_code == 404
        template.write_text(
            original.replace("Path: /items,", "Path: /things,").replace("Default: hello", "Default: ciao")
        )
        eventually(lambda: httpx.get(f"{service.url}/things", timeout=GENEROUS_S).status_code == 200, "the new route")
        assert httpx.get(f"{service.url}/items", timeout=GENEROUS_S).status_code == 404
        assert service.invoke("EnvironmentFunction", {}).json()["variables"]["GREETING"] == "ciao"
        template.write_text("Resources: {")
        eventually(lambda: "template.yaml is not taken up" in service.log, "the refusal")
        assert httpx.get(f"{service.url}/things", timeout=GENEROUS_S).status_code == 200
        swap = own_functions / "template.new"
        swap.write_text(original)
        swap.rename(template)  # as editors save
        eventually(lambda: httpx.get(f"{service.url}/items", timeout=GENEROUS_S).status_code == 200, "the old route")


def test_code_that_a_changed_template_points_to_is_watched_too(own_functions: Path, tmp_path: Path) -> None:
    template = own_functions / "template.yaml"
    other = own_functions / "other" / "app.py"
    other.parent.mkdir()
    other.write_text("def handler(event, context):\n    return 1\n")
    with running(tmp_path, template=template) as service:
        template.write_text(template.read_text().replace("CodeUri: talker/", "CodeUri: other/"))
        eventually(lambda: service.invoke("TalkerFunction", {}).json() == 1, "the other folder")
        other.write_text("def handler(event, context):\n    return 2\n")
        eventually(lambda: service.invoke("TalkerFunction", {}).json() == 2, "the change in the other folder")


# Start and end


def test_stopping_lets_running_invocations_end(tmp_path: Path) -> None:
    with running(tmp_path) as service, ThreadPoolExecutor(1) as threads:
        pending = threads.submit(service.post, "/patient", {"seconds": 1.5})
        eventually(lambda: "START RequestId" in service.log, "the invocation runs")
        workers = service.workers()
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: not accepts(service.url), "no new requests are taken")
        assert pending.result().json()["slept"] == 1.5
        assert service.process.wait(GENEROUS_S) == 0
        assert not psutil.wait_procs(workers, GENEROUS_S)[1]


def test_stopping_waits_no_longer_than_its_bound(tmp_path: Path) -> None:
    with running(tmp_path, "--drain-timeout", "0.3") as service, ThreadPoolExecutor(1) as threads:
        pending = threads.submit(service.post, "/patient", {"seconds": 15})
        eventually(lambda: "START RequestId" in service.log, "the invocation runs")
        workers = service.workers()
        started = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - started < 10
        assert pending.result().status_code == 500
        assert not psutil.wait_procs(workers, GENEROUS_S)[1]


def test_a_second_signal_hurries(tmp_path: Path) -> None:
    with running(tmp_path, "--drain-timeout", "60") as service, ThreadPoolExecutor(1) as threads:
        pending = threads.submit(service.post, "/patient", {"seconds": 15})
        eventually(lambda: "START RequestId" in service.log, "the invocation runs")
        service.process.send_signal(signal.SIGINT)
        eventually(lambda: not accepts(service.url), "no new requests are taken")
        assert service.stop() == 0
        assert pending.result().status_code == 500


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_workers_do_not_outlive_a_service_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as service, ThreadPoolExecutor(1) as threads:
        service.invoke("EchoFunction", {})
        pending = threads.submit(service.invoke, "PatientFunction", {"seconds": 15})
        eventually(lambda: service.log.count("START RequestId") == 2, "the invocation runs")
        workers = service.workers()
        assert len(workers) == 2
        service.process.kill()
        assert not psutil.wait_procs(workers, timeout=5)[1]  # much sooner than the busy one would end by itself
        with pytest.raises(httpx.HTTPError):
            pending.result()


def test_a_taken_port_is_one_line(service: Service) -> None:
    port = service.url.rpartition(":")[2]
    refused = run_once("--template", str(TEMPLATE), "--port", port)
    assert refused.returncode == 2
    assert refused.stderr == f"lambda-service: 127.0.0.1:{port}: Address already in use\n"


def test_what_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "template.yaml"
    broken.write_text("Resources: {}")
    env_file = tmp_path / "env.json"
    env_file.write_text("[]")
    for arguments, reason in [
        (("--template", str(broken)), f"{broken}: no AWS::Serverless::Function in the template"),
        (("--template", str(tmp_path / "none")), f"{tmp_path}/none: No such file or directory"),
        (("--template", str(TEMPLATE), "--parameter", "X=1"), f"{TEMPLATE}: the template declares no parameter X"),
        (("--template", str(TEMPLATE), "--env-file", str(env_file)), f"{env_file}: must look like"),
    ]:
        refused = run_once(*arguments, "--port", "0")
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert refused.stderr.startswith(f"lambda-service: {reason}")


def run_once(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "local.lambda_service", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=GENEROUS_S, check=False)


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # ended, and not waited for by who inherited it
    except psutil.NoSuchProcess:
        return True


def accepts(url: str) -> bool:
    address = httpx.URL(url)
    with socket.socket() as probe:
        return probe.connect_ex((address.host, address.port)) == 0
