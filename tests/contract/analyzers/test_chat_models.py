"""The language models' protocols, against a local server that speaks them: what is asked, and what goes wrong."""

from __future__ import annotations

import time

import pytest
from chat_server import KEY, MODEL, ChatServer, verdict

from examples.analyzers.llm.answer import Answer, read_answer
from examples.analyzers.llm.chat import MAX_ANSWER_BYTES, ChatModel, ModelFailed, make_model
from examples.analyzers.llm.prompt import build_prompt
from examples.analyzers.llm.settings import LlmSettings, llm
from examples.analyzers.settings import SettingsError

pytestmark = pytest.mark.anyio

PROMPT = build_prompt("From: a@b.test", "Hello", {})


@pytest.fixture(params=["ollama", "openai", "bedrock"])
def backend(request: pytest.FixtureRequest, chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": chat.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    return request.param


def settings(backend: str, chat: ChatServer, **changes: str) -> LlmSettings:
    return llm(
        {
            "LLM_BACKEND": backend,
            "LLM_MODEL": MODEL,
            "LLM_TIMEOUT_S": "5",
            "OLLAMA_URL": chat.url,
            "OPENAI_BASE_URL": f"{chat.url}/v1",
            "OPENAI_API_KEY": KEY,
            "AWS_REGION": "eu-central-1",
        }
        | changes
    )


def model(backend: str, chat: ChatServer, **changes: str) -> ChatModel:
    made = make_model(settings(backend, chat, **changes))
    assert made is not None
    return made


async def ask(made: ChatModel) -> Answer:
    text = await made.answer(PROMPT.system, PROMPT.user, Answer.model_json_schema())
    return read_answer(text, PROMPT.check)


async def test_each_protocol_carries_the_prompt_and_the_answer(backend: str, chat: ChatServer) -> None:
    answer = await ask(model(backend, chat))
    assert (answer.verdict, answer.confidence) == ("phishing", 0.9)
    [asked] = chat.asked
    assert (asked.system, asked.user) == (PROMPT.system, PROMPT.user)


async def test_an_answer_in_a_fence_and_with_words_around_it_is_read(backend: str, chat: ChatServer) -> None:
    chat.say = lambda asked: f"Sure!\n```json\n{verdict('clean')(asked)}\n```\nHope this helps."
    assert (await ask(model(backend, chat))).verdict == "clean"


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("It is phishing.", "holds no JSON object"),
        ("", "holds no"),
        ('{"verdict": "clean"', "not JSON"),
        ('{"a": ' * 100_000, "not JSON"),
        ('{"verdict": "clean", "confidence": 1}', "check: Field required"),
        ('{"check": "x", "verdict": "clean", "confidence": 1}', "check word"),
        ('{"check": "x", "verdict": "harmless", "confidence": 1}', "verdict: Input should be"),
        ('{"check": "x", "verdict": "clean", "confidence": 7}', "confidence: Input should be less"),
        ('{"check": "x", "verdict": "clean", "confidence": NaN}', "confidence: "),
    ],
)
async def test_an_answer_that_is_not_the_one_asked_for_is_none(
    backend: str, chat: ChatServer, said: str, complaint: str
) -> None:
    chat.say = lambda asked: said
    with pytest.raises(ModelFailed, match=complaint):
        await ask(model(backend, chat))


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_an_error_of_the_server_is_told_without_its_words(backend: str, chat: ChatServer, status: int) -> None:
    chat.status, chat.raw = status, b'{"error": "secret words"}'
    with pytest.raises(ModelFailed) as caught:
        await ask(model(backend, chat))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"<html>", b"[]", b"{}", b'{"message": null, "choices": [], "output": {}}', b"\xff"])
async def test_what_is_not_the_protocol_is_no_answer(backend: str, chat: ChatServer, raw: bytes) -> None:
    chat.raw = raw
    with pytest.raises(ModelFailed):
        await ask(model(backend, chat))


async def test_a_model_that_is_silent_is_given_up(backend: str, chat: ChatServer) -> None:
    chat.hang = True
    started = time.monotonic()
    with pytest.raises(ModelFailed):
        await ask(model(backend, chat, LLM_TIMEOUT_S="0.3"))
    assert time.monotonic() - started < 5


async def test_nobody_there_is_told(backend: str, chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", nowhere)
    with pytest.raises(ModelFailed, match="cannot be"):
        await ask(model(backend, chat, OLLAMA_URL=nowhere, OPENAI_BASE_URL=f"{nowhere}/v1"))


async def test_an_endless_answer_is_not_read_to_its_end(chat: ChatServer) -> None:
    chat.raw = b" " * (MAX_ANSWER_BYTES + 1)
    with pytest.raises(ModelFailed, match="bytes"):
        await ask(model("ollama", chat))


def test_without_a_backend_there_is_no_model() -> None:
    assert make_model(llm({})) is None


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"LLM_BACKEND": "ollama"}, "LLM_MODEL"),
        ({"LLM_BACKEND": "openai", "LLM_MODEL": "x"}, "OPENAI_BASE_URL"),
        ({"LLM_BACKEND": "telepathy", "LLM_MODEL": "x"}, "LLM_BACKEND"),
        ({"LLM_TIMEOUT_S": "0"}, "LLM_TIMEOUT_S"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        llm(environment)
