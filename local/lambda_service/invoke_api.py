"""Lambda's Invoke operation, so that boto3's `lambda` client works with `endpoint_url` set to this service."""

from __future__ import annotations

import base64
import binascii
import json

from starlette.requests import Request
from starlette.responses import Response

from local.lambda_service.async_events import AsyncInvoker
from local.lambda_service.functions import FunctionSpec
from local.lambda_service.http_body import BodyTooLarge, read_body
from local.lambda_service.invocation import MAX_ASYNC_REQUEST_BYTES, MAX_REQUEST_BYTES, Invocation
from local.lambda_service.pool import Throttled
from local.lambda_service.service import FunctionNotFound, LambdaService

PATH = "/2015-03-31/functions/{name}/invocations"
_MAX_CLIENT_CONTEXT_CHARS = 3583


class _Refused(Exception):
    """Lambda answers an error of its own; the function is not run."""

    def __init__(self, status: int, error_type: str, message: str, **members: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.members = {"Type": "User", "message": message, **members}


class InvokeApi:
    """`POST /2015-03-31/functions/{name}/invocations`, synchronous, asynchronous or as a dry run."""

    def __init__(self, service: LambdaService, events: AsyncInvoker) -> None:
        self._service = service
        self._events = events

    async def invoke(self, request: Request) -> Response:
        """The endpoint of PATH."""
        try:
            return await self._invoke(request)
        except _Refused as refused:
            return Response(
                json.dumps(refused.members),
                refused.status,
                {"x-amzn-errortype": refused.error_type},
                media_type="application/json",
            )

    async def _invoke(self, request: Request) -> Response:
        if "origin" in request.headers:
            # Lambda wants a signature here, we want none: so a web page that the developer visits could send this.
            raise _Refused(403, "AccessDeniedException", "A web page may not invoke functions")
        function = self._function(request)
        kind = request.headers.get("x-amz-invocation-type", "RequestResponse")
        if kind not in ("RequestResponse", "Event", "DryRun"):
            raise _Refused(400, "InvalidParameterValueException", f"{kind} is no invocation type")
        limit = MAX_ASYNC_REQUEST_BYTES if kind == "Event" else MAX_REQUEST_BYTES
        invocation = Invocation(await self._payload(request, limit), client_context=_client_context(request))
        headers = {"x-amzn-requestid": invocation.request_id}
        if kind == "DryRun":
            return Response(status_code=204, headers=headers)
        if kind == "Event":
            self._events.submit(function, invocation)
            return Response(status_code=202, headers=headers)
        return await self._run(function, invocation, headers, wants_log=request.headers.get("x-amz-log-type") == "Tail")

    async def _run(
        self, function: FunctionSpec, invocation: Invocation, headers: dict[str, str], *, wants_log: bool
    ) -> Response:
        try:
            result = await self._service.invoke(function, invocation)
        except Throttled as throttled:
            reason = "ConcurrentInvocationLimitExceeded"
            if function.reserved_concurrency is not None:
                reason = "ReservedFunctionConcurrentInvocationLimitExceeded"
            raise _Refused(429, "TooManyRequestsException", "Rate Exceeded.", Reason=reason) from throttled
        headers["x-amz-executed-version"] = "$LATEST"
        if result.failed:
            headers["x-amz-function-error"] = "Unhandled"
        if wants_log:
            headers["x-amz-log-result"] = base64.b64encode(invocation.log_tail()).decode()
        return Response(result.payload, 200, headers, media_type="application/json")

    def _function(self, request: Request) -> FunctionSpec:
        name = request.path_params["name"]
        try:
            return self._service.find(name)
        except FunctionNotFound as not_found:
            message = f"Function not found: {name}"
            raise _Refused(404, "ResourceNotFoundException", message, Message=message) from not_found

    async def _payload(self, request: Request, limit: int) -> bytes:
        try:
            body = await read_body(request, limit)
        except BodyTooLarge as too_large:
            message = f"Request must be smaller than {limit} bytes for the InvokeFunction operation"
            raise _Refused(413, "RequestTooLargeException", message) from too_large
        if not body:
            return b"{}"
        try:
            json.loads(body)
        except (ValueError, RecursionError) as error:
            message = f"Could not parse request body into json: {error}"
            raise _Refused(400, "InvalidRequestContentException", message) from error
        return body


def _client_context(request: Request) -> str | None:
    encoded = request.headers.get("x-amz-client-context")
    if encoded is None:
        return None
    try:
        if len(encoded) > _MAX_CLIENT_CONTEXT_CHARS:
            raise ValueError("it is too long")
        text = base64.b64decode(encoded, validate=True).decode()
        json.loads(text)
    except (binascii.Error, ValueError) as error:
        raise _Refused(400, "InvalidRequestContentException", f"Client context cannot be read: {error}") from error
    return json.dumps(json.loads(text))  # ASCII on one line, since it travels in a header
