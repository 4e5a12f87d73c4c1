"""Which language model judges, and where it is; none at all is a setting like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr, model_validator

from examples.analyzers.settings import read

Backend = Literal["ollama", "openai", "bedrock"]


class LlmSettings(BaseModel):
    """``backend`` None: the analyzer abstains. ``model`` has no default: which one is the operator's say."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    backend: Annotated[Backend | None, Field(validation_alias="LLM_BACKEND")] = None
    model: Annotated[str, Field(validation_alias="LLM_MODEL")] = ""
    timeout_s: Annotated[float, Field(validation_alias="LLM_TIMEOUT_S", gt=0, le=600)] = 30
    max_answer_tokens: Annotated[int, Field(validation_alias="LLM_MAX_ANSWER_TOKENS", ge=100)] = 800
    ollama_url: Annotated[HttpUrl, Field(validation_alias="OLLAMA_URL")] = HttpUrl("http://127.0.0.1:11434")
    openai_base_url: Annotated[HttpUrl | None, Field(validation_alias="OPENAI_BASE_URL")] = None
    openai_api_key: Annotated[SecretStr | None, Field(validation_alias="OPENAI_API_KEY")] = None
    aws_region: Annotated[str | None, Field(validation_alias="AWS_REGION")] = None

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.backend is not None and not self.model:
            raise ValueError(f"LLM_BACKEND is {self.backend}, and LLM_MODEL does not say which model")
        if self.backend == "openai" and self.openai_base_url is None:
            raise ValueError("LLM_BACKEND is openai, and OPENAI_BASE_URL does not say where it is (http://host/v1)")
        return self


def llm(environment: Mapping[str, str] | None = None) -> LlmSettings:
    return read(LlmSettings, environment)
