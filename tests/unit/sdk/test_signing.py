"""Signed requests: byte for byte what botocore, AWS's own signer, makes of the same request."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import botocore.auth
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from fake_http import URL, ScriptedServer, found
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spot_sdk.client import KnowledgeClient
from spot_sdk.signing import AwsCredentials, RequestSigner, region_of_function_url

pytestmark = pytest.mark.anyio

FUNCTION_URL = "https://abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws/"
MOMENT = datetime(2026, 12, 1, 5, 59, 7, tzinfo=UTC)
CREDENTIALS = AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
OF_A_ROLE = AwsCredentials("ASIAEXAMPLE", "secret/of+a/role", "session//token+==")


@pytest.fixture(autouse=True)
def _the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: MOMENT)


def signed(request: httpx.Request, credentials: AwsCredentials, region: str = "eu-central-1") -> httpx.Request:
    return next(RequestSigner(lambda: credentials, region, clock=lambda: MOMENT).auth_flow(request))


def signed_by_botocore(
    request: httpx.Request, credentials: AwsCredentials, region: str = "eu-central-1"
) -> dict[str, str]:
    """The headers after botocore signed the same request, of which it sees the headers that we sign."""
    covered = {k: v for k, v in request.headers.items() if k in ("host", "content-type", "x-internal-api-key")}
    reference = AWSRequest(request.method, str(request.url), covered, request.content)
    keys = Credentials(credentials.access_key_id, credentials.secret_access_key, credentials.session_token)
    SigV4Auth(keys, "lambda", region).add_auth(reference)
    return {name.lower(): value for name, value in reference.headers.items()}


def same(request: httpx.Request, credentials: AwsCredentials, region: str = "eu-central-1") -> None:
    expected = signed_by_botocore(request, credentials, region)
    headers = signed(request, credentials, region).headers
    for name in ("authorization", "x-amz-date", "x-amz-security-token"):
        assert headers.get(name) == expected.get(name), name


@pytest.mark.parametrize("credentials", [CREDENTIALS, OF_A_ROLE], ids=["user", "role"])
@pytest.mark.parametrize(
    "path",
    [
        "",
        "api/v1/knowledge/query",
        "api//v1/./knowledge/../query/",
        "../..",
        "a%2Fb/%C3%A9 t~*'()!,;:@&=+$",
        "?limit=5&source=wiki",
        "x?b=2&a=1&a=0&c&d=&%C3%A9=%2F&=",
    ],
)
def test_every_kind_of_address_has_botocores_signature(path: str, credentials: AwsCredentials) -> None:
    for method, body in (("POST", b'{"text": "wire transfer"}'), ("GET", b""), ("DELETE", b"")):
        same(httpx.Request(method, FUNCTION_URL + path, content=body), credentials)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    path=st.text(max_size=40).filter(lambda text: "?" not in text and "#" not in text and text.isprintable()),
    query=st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4),
    body=st.binary(max_size=200),
    headers=st.dictionaries(
        st.sampled_from(["Content-Type", "X-Internal-API-Key", "X-Correlation-Id", "Accept"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1).map(str.strip).filter(bool),
    ),
    region=st.sampled_from(["eu-central-1", "us-gov-west-1", "cn-north-1"]),
)
def test_any_request_has_botocores_signature(
    path: str, query: dict[str, str], body: bytes, headers: dict[str, str], region: str
) -> None:
    url = httpx.URL(FUNCTION_URL).copy_with(path=f"/{path}").copy_merge_params(query)
    same(httpx.Request("POST", url, content=body, headers=headers), OF_A_ROLE, region)


def test_without_credentials_a_request_is_left_as_it_is() -> None:
    request = httpx.Request("POST", FUNCTION_URL, content=b"{}")
    before = dict(request.headers)
    assert dict(next(RequestSigner(lambda: None, "eu-central-1").auth_flow(request)).headers) == before


@pytest.mark.parametrize(
    ("url", "region"),
    [
        (FUNCTION_URL, "eu-central-1"),
        (FUNCTION_URL.rstrip("/"), "eu-central-1"),
        ("https://abc.lambda-url.cn-north-1.on.aws.cn/", "cn-north-1"),
        ("https://abc.execute-api.eu-central-1.amazonaws.com/", None),
        ("https://abc.lambda-url.eu-central-1.on.aws.example.org/", None),
        ("http://abc.lambda-url.eu-central-1.on.aws/", None),  # never over an open line
        ("https://example.org/?https://abc.lambda-url.eu-central-1.on.aws/", None),
    ],
)
def test_only_the_url_of_a_function_is_signed_for(url: str, region: str | None) -> None:
    assert region_of_function_url(url) == region


def test_no_representation_shows_a_secret() -> None:
    assert repr(OF_A_ROLE) == "AwsCredentials(access_key_id='ASIAEXAMPLE')"


# The client


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", URL)
    monkeypatch.setenv("SPOT_KNOWLEDGE_QUERY_URL", FUNCTION_URL)
    monkeypatch.setenv("SPOT_INTERNAL_API_KEY", "key-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OF_A_ROLE.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", OF_A_ROLE.secret_access_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", OF_A_ROLE.session_token or "")
    return monkeypatch


def email() -> Any:
    return SimpleNamespace(body_text="Please pay at once.", retrieval_limits=None)


@pytest.mark.parametrize("for_analysis", [True, False])
async def test_questions_go_signed_to_the_functions_url_and_everything_else_to_the_api(
    environment: pytest.MonkeyPatch, for_analysis: bool
) -> None:
    server = ScriptedServer(found(), httpx.Response(200, json={"deleted": 0}))
    make = KnowledgeClient.for_analysis if for_analysis else None
    kb = make(email(), transport=server) if make else KnowledgeClient.from_environment(transport=server)
    async with kb:
        await kb.fetch(text="wire transfer")
        await kb.delete("x")
    question, deletion = server.requests
    assert str(question.url) == f"{FUNCTION_URL}api/v1/knowledge/query"
    assert question.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/")
    assert "/eu-central-1/lambda/aws4_request, " in question.headers["Authorization"]
    assert "content-type;host;x-amz-date;x-amz-security-token;x-internal-api-key," in question.headers["Authorization"]
    assert question.headers["X-Internal-API-Key"] == "key-1"
    assert str(deletion.url).startswith(URL)
    assert "Authorization" not in deletion.headers
    assert "X-Amz-Security-Token" not in deletion.headers


async def test_a_question_that_is_asked_again_is_signed_with_what_is_valid_then(
    environment: pytest.MonkeyPatch,
) -> None:
    def rotate(_: httpx.Request) -> httpx.Response:
        environment.setenv("AWS_ACCESS_KEY_ID", "ASIANEXT")
        return httpx.Response(503, headers={"Retry-After": "0"})

    server = ScriptedServer(rotate, found())
    async with KnowledgeClient.from_environment(transport=server) as kb:
        await kb.fetch(text="wire transfer")
    assert [
        "ASIAEXAMPLE" in server.requests[0].headers["Authorization"],
        "ASIANEXT" in server.requests[1].headers["Authorization"],
    ] == [True, True]


async def test_another_address_for_questions_gets_no_signature(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SPOT_KNOWLEDGE_QUERY_URL", "http://readers.example/api/v1/knowledge/")
    server = ScriptedServer(found())
    async with KnowledgeClient.from_environment(transport=server) as kb:
        await kb.fetch(text="wire transfer")
    assert str(server.requests[0].url) == "http://readers.example/api/v1/knowledge/query"
    assert "Authorization" not in server.requests[0].headers


async def test_credentials_may_come_from_elsewhere() -> None:
    server = ScriptedServer(found())
    kb = KnowledgeClient(URL, "key-1", transport=server, query_url=FUNCTION_URL, aws_credentials=lambda: CREDENTIALS)
    async with kb:
        await kb.fetch(text="wire transfer")
    assert "Credential=AKIDEXAMPLE/" in server.requests[0].headers["Authorization"]
