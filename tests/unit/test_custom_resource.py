"""CloudFormation is told how it went, whatever happens."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from knowledge.custom_resource import CustomResourceRequest, answer
from spot_sdk.errors import Conflict

EVENT = {
    "RequestType": "Update",
    "ResponseURL": "https://cloudformation-custom-resource-response.example/answer?X-Amz-Signature=abc",
    "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/spot/1",
    "RequestId": "request-1",
    "LogicalResourceId": "Migration",
    "PhysicalResourceId": "Migration",
    "ResourceType": "AWS::CloudFormation::CustomResource",
    "ResourceProperties": {"ServiceToken": "arn:aws:lambda:eu-central-1:123456789012:function:migrate"},
    "OldResourceProperties": {},
}


class CloudFormation(httpx.BaseTransport):
    """Takes answers; fails the first ``failures`` of them."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        return httpx.Response(503 if len(self.requests) <= self.failures else 200)

    @property
    def told(self) -> dict[str, Any]:
        return json.loads(self.requests[-1].content)


def request(**changes: Any) -> CustomResourceRequest:
    return CustomResourceRequest.model_validate({**EVENT, **changes})


def test_success_is_told_with_what_came_of_it() -> None:
    cloud_formation = CloudFormation()
    answer(request(), lambda kind: {"Applied": f"all for {kind}"}, transport=cloud_formation)
    assert cloud_formation.told == {
        "Status": "SUCCESS",
        "Data": {"Applied": "all for Update"},
        "StackId": EVENT["StackId"],
        "RequestId": "request-1",
        "LogicalResourceId": "Migration",
        "PhysicalResourceId": "Migration",
    }
    [sent] = cloud_formation.requests
    assert (sent.method, str(sent.url), sent.headers["content-type"]) == ("PUT", EVENT["ResponseURL"], "")


def test_a_failure_is_told_with_its_reason_and_passes_on() -> None:
    cloud_formation = CloudFormation()

    def fail(kind: str) -> dict[str, str]:
        raise Conflict("migration 0002_sync was edited" + "!" * 5000)

    with pytest.raises(Conflict):
        answer(request(), fail, transport=cloud_formation)
    assert cloud_formation.told["Status"] == "FAILED"
    assert cloud_formation.told["Reason"].startswith("Conflict: migration 0002_sync was edited")
    assert len(cloud_formation.requests[0].content) < 4096


def test_the_resource_keeps_its_name_from_the_first_answer_on() -> None:
    cloud_formation = CloudFormation()
    first = {name: value for name, value in EVENT.items() if name != "PhysicalResourceId"} | {"RequestType": "Create"}
    answer(CustomResourceRequest.model_validate(first), lambda kind: {}, transport=cloud_formation)
    assert cloud_formation.told["PhysicalResourceId"] == "Migration"
    answer(request(PhysicalResourceId="of-old"), lambda kind: {}, transport=cloud_formation)
    assert cloud_formation.told["PhysicalResourceId"] == "of-old"


def test_an_answer_that_does_not_arrive_is_sent_again_and_the_work_not_repeated() -> None:
    cloud_formation, worked = CloudFormation(failures=2), []
    answer(request(), lambda kind: worked.append(kind) or {}, transport=cloud_formation)
    assert (len(cloud_formation.requests), worked) == (3, ["Update"])
    with pytest.raises(httpx.HTTPStatusError):
        answer(request(), lambda kind: {}, transport=CloudFormation(failures=9))
