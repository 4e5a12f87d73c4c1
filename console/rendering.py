"""Pages from templates, in which everything is escaped, and our own static files."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from console.visit import Answer
from spot_sdk.documents import KnowledgeDocument

_HERE = Path(__file__).parent
_STATIC = _HERE / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def page(template: str, /, status: int = HTTPStatus.OK, **values: Any) -> Answer:
    """A page, or a part of one, made from a template."""
    return Answer(_environment().get_template(template).render(values), status)


def static_file(name: str) -> Answer:
    """One of our own files, by its bare name; browsers keep it, since its address changes with it."""
    if name not in _versions():
        return Answer("not found", HTTPStatus.NOT_FOUND, "text/plain")
    path = _STATIC / name
    return Answer(
        path.read_text(encoding="utf-8"),
        media_type=_MEDIA_TYPES[path.suffix],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


@cache
def _versions() -> dict[str, str]:
    files = [path for path in _STATIC.iterdir() if path.suffix in _MEDIA_TYPES]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in files}


def _static(name: str) -> str:
    return f"/console/static/{name}?v={_versions()[name]}"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago a moment was, or how soon it will be, in its largest unit."""
    if moment is None:
        return "never"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if abs(seconds) >= length:
            amount = f"{int(abs(seconds) // length)} {unit}"
            return f"{amount} ago" if seconds > 0 else f"in {amount}"
    return "now"


def _name(document: KnowledgeDocument) -> str:
    """What a person calls it: somebody's name, a page's title, or else the id."""
    return str(document.metadata.get("name") or document.metadata.get("title") or document.id)


def _utc(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _count(number: int) -> str:
    return f"{number:,}"


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(ago=ago, utc=_utc, name=_name, count=_count, pretty=_pretty)
    cast("dict[str, Any]", environment.globals)["static"] = _static
    return environment
