"""How every HTTP function answers: keys checked first, the body parsed once, errors as RFC 9457 problems.

A function declares its routes on a ``Resolver`` and returns models; see functions/query/app.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from aws_lambda_powertools.utilities.data_classes.common import CaseInsensitiveDict
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel, ValidationError

from knowledge import metrics, settings, wiring
from knowledge.access.roles import Caller, Role
from knowledge.body import parse_body
from knowledge.correlation import correlated_as
from knowledge.deadline import deadline_in
from knowledge.settings import SettingsError
from knowledge.telemetry import logger, publishing, record, where_it_broke
from spot_sdk.documents import MAX_MEMBERS
from spot_sdk.errors import (
    MAX_PROBLEMS,
    InternalError,
    InvalidDocument,
    InvalidRequest,
    KnowledgeError,
    MalformedRequest,
    Misconfigured,
    ModelMismatch,
    NotFound,
    Problem,
)
from spot_sdk.problems import PROBLEM_CONTENT_TYPE, summary, to_problem

Model = TypeVar("Model", bound=BaseModel)

KEY_HEADER = "x-internal-api-key"
MARGIN_S = 1.0  # for saying that time ran out
CORRELATION_HEADER = "x-correlation-id"
_CORRELATION_ID = re.compile(r"[A-Za-z0-9_.:/+=-]{1,128}")  # without @: an address is nothing for a log


class Request(APIGatewayProxyEventV2):
    """A payload 2.0 event of an HTTP API or a Function URL."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers; Powertools compares media types by letter, so their case is folded."""
        headers = CaseInsensitiveDict(self.get("headers"))
        if "content-type" in headers:
            headers["content-type"] = headers["content-type"].lower()
        return headers

    @cached_property
    def json_body(self) -> Any:
        body = parse_body(
            self.body, is_base64=bool(self.is_base64_encoded), content_encoding=self.headers.get("content-encoding")
        )
        if isinstance(body, dict) and len(body) > MAX_MEMBERS:  # each would become an error of its own
            raise InvalidRequest(f"the body has {len(body)} members, more than any request has")
        return body

    @property
    def path(self) -> str:
        """The path by which a route is chosen, with a path parameter as one encoded segment.

        An HTTP API hands over a decoded path, in which an id's own ``/``, ``#`` or ``?`` cannot be told from the
        path's; its path parameter can.
        """
        path = super().path
        if not self.route_key.endswith("}"):  # a run's number inside the path has nothing to encode
            return path
        for value in self.path_parameters.values():
            if not path.endswith(value) or self.raw_query_string or "\ufffd" in value:
                raise InvalidRequest("the id was damaged on its way in the path; send it to POST /delete")
            return path.removesuffix(value) + quote(value, safe="")
        return path

    @property
    def correlation_id(self) -> str:
        """The caller's, when it sent one that is fit to be logged, else the gateway's request id."""
        sent = self.headers.get(CORRELATION_HEADER) or ""
        return sent if _CORRELATION_ID.fullmatch(sent) else self.request_context.request_id


class Resolver(APIGatewayHttpResolver):
    """Powertools' resolver for payload 2.0, with this product's keys, bodies and problems.

    ``caller`` is who makes the request at hand.
    """

    def __init__(self) -> None:
        super().__init__(enable_validation=True, serializer=_to_json)
        self.caller = Caller(Role.ANYONE)
        self._has_other_model = False
        self.exception_handler(KnowledgeError)(self._answer_error)
        self.exception_handler(RequestValidationError)(self._answer_invalid)
        self.exception_handler(SettingsError)(self._answer_misconfigured)
        self.exception_handler(Exception)(self._answer_broken)
        self.not_found(self._answer_not_found)

    def resolve(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """The answer to one request, always with its correlation id, and a problem where something is wrong."""
        self._request = request = Request(dict(event))
        logger.set_correlation_id(request.correlation_id)
        started = time.perf_counter()
        with publishing(), correlated_as(request.correlation_id):
            answer = self._answer(event, context)
            self._tell(answer["statusCode"], started)
        answer.setdefault("headers", {})[CORRELATION_HEADER] = request.correlation_id
        return answer

    def _answer(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        try:
            with deadline_in(context.get_remaining_time_in_millis() / 1000 - MARGIN_S):
                self._admit(self._request)
                self._has_other_model = False
                answer = super().resolve(event, context)
                if self._has_other_model and wiring.follow_model():  # nothing was read or written yet
                    answer = super().resolve(event, context)
        except KnowledgeError as error:
            answer = _as_answer(self._answer_error(error))
        except SettingsError as error:
            answer = _as_answer(self._answer_misconfigured(error))
        except Exception as error:  # before or around Powertools' own handlers, such as a secret that cannot be read
            answer = _as_answer(self._answer_broken(error))
        return answer

    def _tell(self, status: int, started: float) -> None:
        """Count the request and write its line: the route, for ids stand in paths."""
        record(metrics.REQUESTS, function=settings.metrics().service, status=f"{status // 100}xx")
        latency_ms = round((time.perf_counter() - started) * 1000, 1)
        logger.info("request", route=self._request.route_key, status=status, latency_ms=latency_ms)

    def promises(self) -> list[tuple[str, str, str]]:
        """Method, path and promise (the handler's docstring) of every route."""
        routes = [*self._static_routes, *self._dynamic_routes]
        return [(route.method, route.path, " ".join((route.func.__doc__ or "").split())) for route in routes]

    def _to_proxy_event(self, event: dict[str, Any]) -> Request:
        return self._request

    def _admit(self, request: Request) -> None:
        """Refuse before anything of the body is looked at."""
        self.caller = wiring.keyring().authorize(request.http_method, request.path, request.headers.get(KEY_HEADER))
        content_type = request.headers.get("content-type") or "application/json"
        if request.body and content_type.partition(";")[0].strip().lower() != "application/json":
            raise MalformedRequest("send the body as Content-Type application/json")

    def _answer_error(self, error: KnowledgeError) -> Response[str]:
        self._has_other_model = isinstance(error, ModelMismatch)
        if error.status < 500:
            logger.warning("refused", code=error.code, status=error.status)
        elif not isinstance(error, InternalError) or error.__cause__ is not None:  # else it is told already
            logger.error("failed", code=error.code, status=error.status, broke=where_it_broke(error))
        headers: dict[str, str | list[str]] = {}
        if error.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
        body = json.dumps(to_problem(error, correlation_id=self._request.correlation_id))
        return Response(error.status, content_type=PROBLEM_CONTENT_TYPE, headers=headers, body=body)

    def _answer_invalid(self, error: RequestValidationError) -> Response[str]:
        return self._answer_error(_as_invalid_input(error.errors(), self._request.json_body))

    def _answer_not_found(self, _: NotFoundError) -> Response[str]:
        return self._answer_error(NotFound(f"no route for {self._request.http_method} here"))

    def _answer_misconfigured(self, error: SettingsError) -> Response[str]:
        return self._answer_error(Misconfigured(str(error)))

    def _answer_broken(self, error: Exception) -> Response[str]:
        """The last resort: the trace goes to the log, and the caller learns only where to look for it."""
        logger.error("broken", reason=type(error).__name__, broke=where_it_broke(error))
        return self._answer_error(InternalError())


def read(model: type[Model], values: Any) -> Model:
    """``values`` as a model. Raises InvalidRequest, which names the field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _as_invalid_input(
            [{**found, "loc": ("path", *found["loc"])} for found in error.errors()], values
        ) from None


def _as_invalid_input(errors: Sequence[Any], body: Any) -> KnowledgeError:
    """Pydantic's findings as problems that name the document and the field."""
    problems = [_as_problem(error["loc"], error["msg"], body) for error in errors[:MAX_PROBLEMS]]
    kind = InvalidDocument if any(problem.document for problem in problems) else InvalidRequest
    return kind(summary(problems[0], len(errors)), problems=problems)


def _as_problem(location: Sequence[str | int], message: str, body: Any) -> Problem:
    path = list(location[1:])  # without "body" or "path"
    document = None
    if path[:1] == ["documents"] and len(path) > 1 and isinstance(path[1], int):
        document = _id_of(body["documents"][path[1]]) or f"documents[{path[1]}]"
        path = path[2:]
    elif isinstance(body, dict) and "content" in body:
        document = _id_of(body)
    field = ".".join(map(str, path)) or (None if document else str(location[0]))
    return Problem(document=document, field=field, message=message.removeprefix("Value error, "))


def _id_of(document: Any) -> str | None:
    identifier = document.get("id") if isinstance(document, dict) else None
    return identifier.encode("utf-8", "replace").decode()[:200] if isinstance(identifier, str) else None


def _as_answer(response: Response[str]) -> dict[str, Any]:
    return {
        "statusCode": response.status_code,
        "headers": {**response.headers, "Content-Type": response.headers["Content-Type"]},
        "body": response.body,
        "isBase64Encoded": False,
    }


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
