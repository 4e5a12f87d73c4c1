"""What the environment tells a plugin: the only module of the SDK that reads it."""

from __future__ import annotations

import math
import os

from spot_sdk.errors import InvalidInput
from spot_sdk.signing import AwsCredentials

URL_VARIABLE = "SPOT_KNOWLEDGE_URL"
QUERY_URL_VARIABLE = "SPOT_KNOWLEDGE_QUERY_URL"
KEY_VARIABLE = "SPOT_INTERNAL_API_KEY"
TIMEOUT_VARIABLE = "SPOT_KNOWLEDGE_TIMEOUT_S"


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


def query_url_from_environment() -> str | None:
    """The address that questions go to instead, such as a Lambda function's own; None when there is none."""
    return os.environ.get(QUERY_URL_VARIABLE, "").strip() or None


def timeout_from_environment() -> float | None:
    """Seconds that an analyzer's question may take, or None. Raises InvalidInput for what is no such number."""
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidInput(f"{TIMEOUT_VARIABLE} is not a number of seconds above 0")
    return seconds


def aws_credentials_from_environment() -> AwsCredentials | None:
    """The credentials that Lambda and the AWS tools put there, or None. Asked for each request, since they change."""
    key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return None
    return AwsCredentials(key_id, secret, os.environ.get("AWS_SESSION_TOKEN") or None)
