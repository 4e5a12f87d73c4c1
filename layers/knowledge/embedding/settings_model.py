"""What an operator chooses about embedding; ``knowledge.settings`` fills it from the environment."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

Backend = Literal["minilm", "hash", "ollama", "bedrock", "openai"]


def _http_url(text: str) -> str:
    """A base URL without a slash at its end."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not a URL that begins with http:// or https://")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError("a base URL holds no query, no fragment and no credentials")
    return text.rstrip("/")


HttpUrl = Annotated[str, AfterValidator(_http_url)]


class EmbeddingSettings(BaseModel):
    """The choice of an embedder.

    ``model`` and ``dimensions`` default to those of the backend. ``dimensions`` is needed for models that
    ``embedding.models`` does not know; for those that can be shortened it asks for fewer. ``timeout_s`` is the time for
    one request to a remote model, its retry included. ``aws_region`` None leaves the region to boto3.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    backend: Backend = "minilm"
    model: Annotated[str, Field(min_length=1)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=2048)] = 16
    dimensions: Annotated[int, Field(ge=1)] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=900, allow_inf_nan=False)] = 10.0
    ollama_url: HttpUrl = "http://127.0.0.1:11434"
    openai_base_url: HttpUrl = "https://api.openai.com/v1"
    openai_api_key: SecretStr | None = None
    aws_region: str | None = None
