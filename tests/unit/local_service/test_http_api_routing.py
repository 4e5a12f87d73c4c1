"""Which route serves which path, and what an HTTP API does to paths."""

from __future__ import annotations

import pytest

from local.lambda_service.functions import HttpRoute
from local.lambda_service.routing import BadPath, decode_http_api_path, match_route


@pytest.mark.parametrize(
    ("sent", "handed_over"),
    [
        # What AWS did to paths that were sent to it, as published by the voker project (July 2026).
        ("/capture/plain", "/capture/plain"),
        ("/capture/space%20value", "/capture/space value"),
        ("/capture/question%3Fvalue", "/capture/question"),
        ("/capture/hash%23value", "/capture/hash#value"),
        ("/capture/slash%2Fvalue", "/capture/slash/value"),
        ("/capture/unicode-%CE%BB-%E4%B8%96%E7%95%8C", "/capture/unicode-λ-世界"),
        ("/capture/literal%252Fvalue", "/capture/literal/value"),
        ("/capture/literal%253Fvalue", "/capture/literal?value"),
        ("/capture/literal%2525value", "/capture/literal%value"),
        # And what follows from it.
        ("/a+b", "/a+b"),
        ("/", "/"),
    ],
)
def test_an_http_api_decodes_paths(sent: str, handed_over: str) -> None:
    assert decode_http_api_path(sent) == handed_over


@pytest.mark.parametrize("sent", ["/percent%25done", "/%", "/a%2", "/a%zz"])
def test_an_http_api_refuses_paths_that_it_cannot_decode(sent: str) -> None:
    with pytest.raises(BadPath):
        decode_http_api_path(sent)


ROUTES = [
    (HttpRoute("ANY", "$default"), "default"),
    (HttpRoute("ANY", "/api/{proxy+}"), "greedy"),
    (HttpRoute("GET", "/api/v1/{proxy+}"), "narrower greedy"),
    (HttpRoute("DELETE", "/api/v1/{id}"), "parameter"),
    (HttpRoute("GET", "/api/v1/stats"), "literal"),
    (HttpRoute("ANY", "/api/v1/stats"), "any literal"),
    (HttpRoute("GET", "/api/{version}/stats/{day}"), "two parameters"),
]


@pytest.mark.parametrize(
    ("method", "path", "target", "parameters"),
    [
        ("GET", "/api/v1/stats", "literal", {}),
        ("POST", "/api/v1/stats", "any literal", {}),
        ("DELETE", "/api/v1/stats", "any literal", {}),
        ("DELETE", "/api/v1/abc", "parameter", {"id": "abc"}),
        ("GET", "/api/v1/abc", "narrower greedy", {"proxy": "abc"}),
        ("GET", "/api/v1/a/b c", "narrower greedy", {"proxy": "a/b c"}),
        ("PUT", "/api/v1/abc/", "greedy", {"proxy": "v1/abc/"}),
        ("GET", "/api/v2/stats/monday", "two parameters", {"version": "v2", "day": "monday"}),
        ("DELETE", "/api/v1/", "greedy", {"proxy": "v1/"}),
        ("GET", "/api", "default", {}),
        ("GET", "/api/", "default", {}),
        ("GET", "/", "default", {}),
    ],
)
def test_the_most_specific_route_wins(method: str, path: str, target: str, parameters: dict[str, str]) -> None:
    for routes in (ROUTES, ROUTES[::-1]):
        match = match_route(routes, method, path)
        assert match is not None
        assert (match.target, match.path_parameters) == (target, parameters)


@pytest.mark.parametrize(
    ("method", "path"),
    [("HEAD", "/x"), ("OPTIONS", "/x"), ("GET", "/x/"), ("GET", "/X"), ("GET", "//x"), ("GET", "/x/y")],
)
def test_there_is_no_route_for_other_methods_and_paths(method: str, path: str) -> None:
    assert match_route([(HttpRoute("GET", "/x"), 1)], method, path) is None
