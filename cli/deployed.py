"""A stack on AWS, as ``--stack NAME`` names it: what it says of itself in its outputs, and its internal key."""

from __future__ import annotations

import json
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from spot_sdk.errors import Forbidden, InvalidInput, NotFound, Unavailable

named_stack: ContextVar[str | None] = ContextVar("named_stack", default=None)
"""The name after ``--stack`` of the command line that runs."""


@dataclass(frozen=True)
class DeployedStack:
    """A stack of template.yaml, read with the credentials and the region of the AWS tools' own settings."""

    name: str
    outputs: dict[str, str]

    @property
    def knowledge_url(self) -> str:
        return self.output("KnowledgeUrl")

    def output(self, name: str) -> str:
        """Raises NotFound for a stack that has no such output: not ours, or not complete yet."""
        try:
            return self.outputs[name]
        except KeyError:
            raise NotFound(f"the stack {self.name} has no output {name}: is it a Knowledge Store?") from None

    def internal_key(self) -> str:
        """The key that is current. Raises Forbidden when the caller may not read the stack's secret."""
        answer = _ask("secretsmanager", "get_secret_value", self.name, SecretId=self.output("InternalApiKeySecretArn"))
        try:
            return str(json.loads(answer["SecretString"])["current"])
        except (KeyError, ValueError):
            raise InvalidInput(f"the secret of the internal keys of {self.name} has no member `current`") from None


def read_stack(name: str) -> DeployedStack:
    """Raises NotFound when there is none of this name, InvalidInput without credentials or region, Forbidden when they
    do not suffice, Unavailable when AWS does not answer."""
    [stack] = _ask("cloudformation", "describe_stacks", name, StackName=name)["Stacks"]
    return DeployedStack(name, {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])})


def _ask(service: str, operation: str, stack: str, **parameters: str) -> Any:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

    try:
        return getattr(boto3.client(service), operation)(**parameters)
    except (NoCredentialsError, NoRegionError) as error:
        raise InvalidInput(
            f"the stack {stack} cannot be read: {error} (`aws configure`, AWS_PROFILE, AWS_REGION)"
        ) from error
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if code == "ValidationError" and "does not exist" in message:
            raise NotFound(f"there is no stack {stack} in this account and region") from error
        if code in ("AccessDenied", "AccessDeniedException"):
            raise Forbidden(f"the stack {stack} cannot be read: {message}") from error
        raise Unavailable(f"the stack {stack} cannot be read: {code}: {message}") from error
    except BotoCoreError as error:
        raise Unavailable(f"the stack {stack} cannot be read: {error}") from error
