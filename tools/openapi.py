"""Write the API's description, docs/reference/openapi.json, from the functions themselves; `--check` only compares."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from knowledge import __version__
from knowledge.access.roles import Role, role_for
from spot_sdk.problems import PROBLEM_CONTENT_TYPE, ProblemDetails

FUNCTIONS = ("query", "upsert", "admin")
TARGET = Path(__file__).parents[1] / "docs" / "reference" / "openapi.json"
_REFERENCE = "#/components/schemas/{model}"


def describe() -> dict[str, Any]:
    """One description for the routes of all functions."""
    merged: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Knowledge Store", "version": __version__},
        "paths": {},
        "components": {
            "schemas": {},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Internal-API-Key"}},
        },
    }
    for name in FUNCTIONS:
        app = importlib.import_module(f"functions.{name}.app").app
        part = json.loads(app.get_openapi_json_schema(title="Knowledge Store", version=__version__))
        promises = {(method, path): promise for method, path, promise in app.promises()}
        for path, item in part["paths"].items():
            for method, operation in item.items():
                route = (method.upper(), path.replace("{", "<").replace("}", ">"))
                _finish(operation, promises[route], role_for(*route))
                operation["tags"] = [name]
                merged["paths"].setdefault(path, {})[method] = operation
        merged["components"]["schemas"].update(part["components"]["schemas"])
    schemas = merged["components"]["schemas"]
    problem = ProblemDetails.model_json_schema(ref_template=_REFERENCE)
    schemas.update(problem.pop("$defs", {}))
    schemas["ProblemDetails"] = problem
    for unused in ("HTTPValidationError", "ResponseValidationError", "ValidationError"):
        schemas.pop(unused, None)
    merged["paths"] = dict(sorted(merged["paths"].items()))
    merged["components"]["schemas"] = dict(sorted(schemas.items()))
    return merged


def _finish(operation: dict[str, Any], promise: str, role: Role) -> None:
    """Say what a route does and which role it needs, and that every error is a problem."""
    operation["security"] = [] if role is Role.ANYONE else [{"key": []}]
    operation["summary"] = promise
    operation["description"] = f"Role: {role.name.lower()}."
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {
        "description": "A problem (RFC 9457); `code` is the name to branch on",
        "content": {PROBLEM_CONTENT_TYPE: {"schema": {"$ref": _REFERENCE.format(model="ProblemDetails")}}},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is not what it should be")
    arguments = parser.parse_args()
    text = json.dumps(describe(), indent=2, ensure_ascii=False) + "\n"
    if arguments.check:
        if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{TARGET.name} is not what the functions say; run `make openapi`\n")
        return 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
