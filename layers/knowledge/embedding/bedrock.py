"""Embeddings from Amazon Bedrock's Titan Text Embeddings V2, one text per call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from knowledge.embedding.estimate import estimated_windows
from knowledge.embedding.models import choose_remote
from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.embedding.vectors import unit_or_reason
from knowledge.embedding.windows import WindowedEmbedder
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

_MAX_PARALLEL = 8
_ATTEMPTS = 2
_ABOUT_TEXT = "ValidationException"  # every other error speaks of the service, the account or the model
_LONGEST_REASON = 200


class BedrockEmbedder(WindowedEmbedder[str]):
    """``amazon.titan-embed-text-v2:0``: 1024 dimensions (or 512, 256), 8192 tokens at once.

    Titan takes one text per call, so ``batch_size`` is the number of calls under way at once, at most eight. ``client``
    replaces the one that boto3 makes with the first text. Raises ValueError for settings that name no usable model.
    """

    def __init__(self, settings: EmbeddingSettings, *, client: Any = None) -> None:
        self._choice = choose_remote(settings)
        self._settings = settings
        self._given_client = client

    @property
    def model(self) -> EmbeddingModel:
        return self._choice.model

    def _windows(self, text: str) -> list[str]:
        return estimated_windows(text, self.model.max_input_tokens)

    def _embed_windows(self, windows: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        if not windows:
            return []
        invoke = partial(self._embed_window, self._client)
        if len(windows) == 1:
            return [invoke(windows[0])]
        workers = min(len(windows), self._settings.batch_size, _MAX_PARALLEL)
        with ThreadPoolExecutor(workers, thread_name_prefix="bedrock") as pool:
            return list(pool.map(invoke, windows))

    def _embed_window(self, client: Any, text: str) -> Vector | EmbeddingFailed:
        from botocore.exceptions import BotoCoreError, ClientError

        request = {"inputText": text, "dimensions": self.model.dimensions, "normalize": True}
        try:
            answer = client.invoke_model(modelId=self.model.model, body=json.dumps(request), accept="application/json")
            body = answer["body"].read()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            reason = error.response.get("Error", {}).get("Message", "")[:_LONGEST_REASON]
            if code == _ABOUT_TEXT:
                return EmbeddingFailed(f"Bedrock refuses the text: {reason}")
            raise EmbedderUnavailable(f"Bedrock answered {code}: {reason}") from error
        except BotoCoreError as error:
            raise EmbedderUnavailable(f"Bedrock cannot be reached: {error}") from error
        try:
            return unit_or_reason(json.loads(body)["embedding"], self.model.dimensions)
        except (ValueError, KeyError, TypeError, RecursionError):
            return EmbeddingFailed("the answer of Bedrock holds no embedding")

    @cached_property
    def _client(self) -> Any:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        if self._given_client is not None:
            return self._given_client
        config = Config(
            connect_timeout=self._settings.timeout_s / _ATTEMPTS,
            read_timeout=self._settings.timeout_s / _ATTEMPTS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=_MAX_PARALLEL,
        )
        try:
            return boto3.client("bedrock-runtime", region_name=self._settings.aws_region, config=config)
        except BotoCoreError as error:
            raise EmbedderUnavailable(f"Bedrock cannot be used: {error}") from error
