"""What both analyzers take from the environment; ``read`` is how each of them reads its own part."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class SettingsError(Exception):
    """The environment does not say what is needed; the message names the variables, never their values."""


class ServiceSettings(BaseModel):
    """Where the store is, and the key of the platform: shown to the store, and asked of whoever orders an analysis."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    knowledge_url: Annotated[str, Field(validation_alias="SPOT_KNOWLEDGE_URL", min_length=1)]
    api_key: Annotated[SecretStr | None, Field(validation_alias="SPOT_INTERNAL_API_KEY")] = None


def read(model: type[Model], environment: Mapping[str, str] | None = None) -> Model:
    """``model`` filled from the variables that its fields' aliases name; one that is set to nothing is not set.

    Raises SettingsError with one clear line for everything that is missing or wrong.
    """
    variables = os.environ if environment is None else environment
    try:
        return model.model_validate({name: value for name, value in variables.items() if value})
    except ValidationError as error:
        raise SettingsError(f"the environment is not right: {_told(error)}") from None


def _told(error: ValidationError) -> str:
    return "; ".join(
        f"{found['loc'][0]}: {found['msg']}" if found["loc"] else found["msg"].removeprefix("Value error, ")
        for found in error.errors()
    )
