"""A mail's verdict, as an analyzer gives it, with the documents that it rests on."""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from console.rendering import page
from console.visit import Answer, Visit
from spot_sdk.analysis import AnalysisRequest, AnalysisResult
from spot_sdk.email import Email
from spot_sdk.errors import Unavailable

_TIMEOUT_S = 20.0


def show(visit: Visit) -> Answer:
    return page("mail.html", visit=visit, email=None, verdict=None)


def check(visit: Visit) -> Answer:
    """Read what was sent, have it judged, and show both."""
    raw = visit.upload("file") or visit.form.get("source", "").encode("utf-8", "replace")
    if not raw.strip():
        return show(visit)
    email = Email.from_bytes(raw)
    verdict = None if visit.access.analyzer_url is None else _judged(visit, visit.access.analyzer_url, email)
    return page("mail.html", visit=visit, email=email, verdict=verdict)


def _judged(visit: Visit, url: str, email: Email) -> AnalysisResult:
    """What the analyzer says. Raises Unavailable when it says nothing that can be read."""
    body = AnalysisRequest(email=email).model_dump_json()
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/internal/analyze",
            content=body,
            headers={"Content-Type": "application/json", "X-Internal-API-Key": next(iter(visit.access.keys()), "")},
            timeout=_TIMEOUT_S,
            trust_env=False,
        ).raise_for_status()
        return AnalysisResult.model_validate_json(answer.content)
    except (httpx.HTTPError, ValidationError) as error:
        raise Unavailable("the analyzer did not answer") from error
