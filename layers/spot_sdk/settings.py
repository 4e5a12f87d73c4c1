"""What the environment tells a plugin: the only module of the SDK that reads it."""

from __future__ import annotations

import os

from spot_sdk.errors import InvalidInput

URL_VARIABLE = "SPOT_KNOWLEDGE_URL"
KEY_VARIABLE = "SPOT_INTERNAL_API_KEY"


def knowledge_url_from_environment() -> str:
    """The base address of the store's API. Raises InvalidInput when SPOT_KNOWLEDGE_URL is not set."""
    url = os.environ.get(URL_VARIABLE, "").strip()
    if not url:
        raise InvalidInput(
            f"{URL_VARIABLE} is not set; it is the store's address, such as http://host/api/v1/knowledge"
        )
    return url


def api_key_from_environment() -> str | None:
    """The platform's key, or None when SPOT_INTERNAL_API_KEY is not set."""
    return os.environ.get(KEY_VARIABLE, "").strip() or None
