"""The names that a deployed stack's resources would have, as far as a local run can know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAME_PROPERTIES = ("FunctionName", "QueueName", "TopicName", "LogGroupName", "BucketName", "TableName", "Name")


@dataclass(frozen=True)
class StackNames:
    """Names and ARNs of one stack in one account and region; `endpoint_url` is the AWS emulator, if there is one."""

    stack_name: str = "local"
    region: str = "us-east-1"
    account_id: str = "123456789012"
    base_url: str = "http://127.0.0.1:8787"
    endpoint_url: str | None = None

    def pseudo_parameters(self) -> dict[str, str]:
        """What `Ref` gives for the AWS:: names, AWS::NoValue apart."""
        return {
            "AWS::AccountId": self.account_id,
            "AWS::Partition": "aws",
            "AWS::Region": self.region,
            "AWS::StackId": self._arn("cloudformation", f"stack/{self.stack_name}/local"),
            "AWS::StackName": self.stack_name,
            "AWS::URLSuffix": "amazonaws.com",
        }

    def physical_name(self, logical_id: str, resource_type: str, properties: Mapping[str, Any]) -> str:
        """The name that the template gives, else one made as a deployment would, but without its random ending."""
        for key in NAME_PROPERTIES:
            if isinstance(properties.get(key), str):
                return str(properties[key])
        if resource_type == "AWS::Serverless::Function":
            return logical_id
        return f"{self.stack_name}-{logical_id}"

    def function_arn(self, name: str) -> str:
        return self._arn("lambda", f"function:{name}")

    def function_url(self, name: str) -> str:
        return f"{self.base_url}/lambda-url/{name}/"

    def value_of(
        self, logical_id: str, resource_type: str, properties: Mapping[str, Any], attribute: str | None
    ) -> str | None:
        """What `Ref` (attribute None) or `GetAtt` gives for a resource; None when only a deployed stack knows it."""
        name = self.physical_name(logical_id, resource_type, properties)
        arns = {
            "AWS::Events::EventBus": ("events", f"event-bus/{name}"),
            "AWS::Events::Rule": ("events", f"rule/{name}"),
            "AWS::SNS::Topic": ("sns", name),
            "AWS::SQS::Queue": ("sqs", name),
            "AWS::SecretsManager::Secret": ("secretsmanager", f"secret:{name}"),
            "AWS::Serverless::Function": ("lambda", f"function:{name}"),
            "AWS::Serverless::LayerVersion": ("lambda", f"layer:{logical_id}:1"),
        }
        arn = self._arn(*arns[resource_type]) if resource_type in arns else None
        if attribute is None:
            if resource_type == "AWS::SQS::Queue":
                return f"{self.endpoint_url or f'https://sqs.{self.region}.amazonaws.com'}/{self.account_id}/{name}"
            if resource_type in ("AWS::SNS::Topic", "AWS::SecretsManager::Secret", "AWS::Serverless::LayerVersion"):
                return arn
            return name
        if attribute in ("Arn", "TopicArn"):
            return arn
        if attribute == "ApiEndpoint" and resource_type == "AWS::Serverless::HttpApi":
            return self.base_url
        if attribute in ("QueueName", "TopicName", "Name"):
            return name
        return None

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account_id}:{resource}"
