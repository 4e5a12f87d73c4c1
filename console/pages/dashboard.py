"""The dashboard of the template, drawn: from the local service's metrics; on AWS, CloudWatch itself shows it."""

from __future__ import annotations

import json
from typing import Any

import httpx

from console.rendering import page
from console.visit import Answer, Visit
from spot_sdk.errors import Unavailable

_TIMEOUT_S = 10.0


def show(visit: Visit) -> Answer:
    """A place for each widget; the script draws them. Without one, or without points, their last values are there."""
    url = visit.access.series_url
    widgets = [_summary(widget) for widget in _drawn(url)["widgets"]] if url else []
    return page("dashboard.html", visit=visit, widgets=widgets, is_drawn=url is not None)


def data(visit: Visit) -> Answer:
    """The widgets' lines as JSON, for the script."""
    drawn = _drawn(visit.access.series_url) if visit.access.series_url else {"widgets": []}
    return Answer(json.dumps(drawn), media_type="application/json")


def _drawn(url: str) -> dict[str, Any]:
    try:
        return httpx.get(f"{url}/dashboard", timeout=_TIMEOUT_S, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable("the local service did not give its metrics") from error


def _summary(widget: dict[str, Any]) -> dict[str, Any]:
    last = [(line["label"], line["points"][-1][1]) for line in widget["series"] if line["points"]]
    return {"title": widget["title"], "last": last}
