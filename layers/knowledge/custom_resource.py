"""CloudFormation's custom resources: a function that CloudFormation calls at deploy, and that answers to a URL.

Shapes: AWS CloudFormation User Guide, "Custom resource request and response objects".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field

from knowledge.telemetry import logger

RequestType = Literal["Create", "Update", "Delete"]

_TIMEOUT_S = 10.0
_ATTEMPTS = 3
_LONGEST_REASON = 1000  # the whole answer may have 4096 bytes


class CustomResourceRequest(BaseModel):
    """What CloudFormation asks; members that are not needed are left out."""

    model_config = ConfigDict(frozen=True)

    request_type: Annotated[RequestType, Field(alias="RequestType")]
    response_url: Annotated[str, Field(alias="ResponseURL")]
    stack_id: Annotated[str, Field(alias="StackId")]
    request_id: Annotated[str, Field(alias="RequestId")]
    logical_id: Annotated[str, Field(alias="LogicalResourceId")]
    physical_id: Annotated[str | None, Field(alias="PhysicalResourceId")] = None


def answer(
    request: CustomResourceRequest,
    work: Callable[[RequestType], dict[str, str]],
    *,
    transport: httpx.BaseTransport | None = None,
) -> None:
    """Do the work and tell CloudFormation how it went, whatever happens: without an answer it waits for its time-out.

    What ``work`` returns becomes the resource's attributes. Raises what it raised, after telling; httpx.HTTPError when
    CloudFormation could not be told.
    """
    try:
        attributes = work(request.request_type)
    except Exception as error:
        _tell(request, {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"[:_LONGEST_REASON]}, transport)
        raise
    _tell(request, {"Status": "SUCCESS", "Data": attributes}, transport)


def _tell(request: CustomResourceRequest, outcome: dict[str, object], transport: httpx.BaseTransport | None) -> None:
    said = outcome | {
        "StackId": request.stack_id,
        "RequestId": request.request_id,
        "LogicalResourceId": request.logical_id,
        # It stays the same for good: another one would have CloudFormation delete "the old resource".
        "PhysicalResourceId": request.physical_id or request.logical_id,
    }
    with httpx.Client(timeout=_TIMEOUT_S, transport=transport) as client:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                # The URL is signed for a request without a content type.
                client.put(
                    request.response_url, content=json.dumps(said), headers={"content-type": ""}
                ).raise_for_status()
            except httpx.HTTPError:
                if attempt == _ATTEMPTS:
                    raise
                logger.warning("CloudFormation was not told; trying again", attempt=attempt)
            else:
                return
