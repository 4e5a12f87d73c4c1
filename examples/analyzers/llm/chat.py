"""Language models behind one method: Ollama, whatever speaks OpenAI's protocol, and Bedrock."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Protocol

import anyio.to_thread
import httpx

from examples.analyzers.llm.settings import LlmSettings

MAX_ANSWER_BYTES = 1_000_000


class ModelFailed(Exception):
    """There is no answer of the model to read; the message says why."""


class ChatModel(Protocol):
    """Answers a user's message under a system's rules. Raises ModelFailed."""

    async def answer(self, system: str, user: str, schema: dict[str, Any]) -> str:
        """The text of the answer. ``schema`` is the JSON schema of what is wanted; not all can be held to it."""
        ...


def make_model(settings: LlmSettings) -> ChatModel | None:
    """The model that the settings name, None where they name none. Nothing is called before the first question."""
    match settings.backend:
        case None:
            return None
        case "ollama":
            return OllamaChat(settings)
        case "openai":
            return OpenAiChat(settings)
        case "bedrock":
            return BedrockChat(settings)


class OllamaChat:
    """``POST /api/chat`` of an Ollama server."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._url = f"{str(settings.ollama_url).rstrip('/')}/api/chat"

    async def answer(self, system: str, user: str, schema: dict[str, Any]) -> str:
        body = await _post(
            self._url,
            {
                "model": self._settings.model,
                "messages": _messages(system, user),
                "stream": False,
                "format": schema,
                "options": {"temperature": 0, "num_predict": self._settings.max_answer_tokens},
            },
            timeout_s=self._settings.timeout_s,
        )
        match body:
            case {"message": {"content": str(text)}, "done": True}:
                return text
            case _:
                raise ModelFailed("the answer of Ollama is not one of /api/chat")


class OpenAiChat:
    """``POST /chat/completions`` under a base address such as ``http://host/v1``."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._url = f"{str(settings.openai_base_url).rstrip('/')}/chat/completions"

    async def answer(self, system: str, user: str, schema: dict[str, Any]) -> str:
        key = self._settings.openai_api_key
        body = await _post(
            self._url,
            {
                "model": self._settings.model,
                "messages": _messages(system, user),
                "temperature": 0,
                "max_tokens": self._settings.max_answer_tokens,
                "response_format": {"type": "json_object"},
            },
            timeout_s=self._settings.timeout_s,
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
        )
        match body:
            case {"choices": [{"message": {"content": str(text)}}, *_]}:
                return text
            case {"choices": [{"message": {"refusal": str()}}, *_]}:
                raise ModelFailed("the model refuses to answer")
            case _:
                raise ModelFailed("the answer is not one of /chat/completions")


class BedrockChat:
    """The Converse API of Amazon Bedrock; credentials come from where boto3 looks for them."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings

    async def answer(self, system: str, user: str, schema: dict[str, Any]) -> str:
        call = partial(self._converse, system, user)
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)

    def _converse(self, system: str, user: str) -> str:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            body = self._client.converse(
                modelId=self._settings.model,
                system=[{"text": system}],
                messages=[{"role": "user", "content": [{"text": user}]}],
                inferenceConfig={"maxTokens": self._settings.max_answer_tokens, "temperature": 0.0},
            )
        except ClientError as error:
            raise ModelFailed(f"Bedrock answered {error.response.get('Error', {}).get('Code', 'an error')}") from error
        except BotoCoreError as error:
            raise ModelFailed(f"Bedrock cannot be used: {type(error).__name__}") from error
        except (
            ResponseParserError,
            ValueError,
            TypeError,
            AttributeError,
        ) as error:  # what boto3 makes of bytes that are no answer
            raise ModelFailed("the answer of Bedrock is not one of Converse") from error
        match body:
            case {"output": {"message": {"content": [*parts]}}}:
                return "".join(part["text"] for part in parts if "text" in part)
            case _:
                raise ModelFailed("the answer of Bedrock holds no message")

    @cached_property
    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=self._settings.timeout_s,
            read_timeout=self._settings.timeout_s,
            retries={"mode": "standard", "total_max_attempts": 1},
        )
        return boto3.client("bedrock-runtime", region_name=self._settings.aws_region, config=config)


def _messages(system: str, user: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


async def _post(url: str, body: dict[str, Any], *, timeout_s: float, headers: dict[str, str] | None = None) -> Any:
    """The JSON that the server answers, all of it within ``timeout_s``. Raises ModelFailed."""
    try:
        with anyio.fail_after(timeout_s):
            async with (
                httpx.AsyncClient(timeout=timeout_s) as client,
                client.stream("POST", url, json=body, headers=headers) as response,
            ):
                content = b""
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MAX_ANSWER_BYTES:
                        raise ModelFailed(f"the model's answer has more than {MAX_ANSWER_BYTES:,} bytes")
                if response.status_code != httpx.codes.OK:
                    raise ModelFailed(f"the model's server answered {response.status_code}")
                return httpx.Response(200, content=content).json()
    except TimeoutError:
        raise ModelFailed(f"the model has not answered in {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelFailed(f"the model's server cannot be reached: {type(error).__name__}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFailed("the model's server answered no JSON") from error
