"""What is told: metrics in CloudWatch's embedded format, and errors without their words."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest

from knowledge import correlation, metrics, telemetry
from knowledge.telemetry import Broken, of_event, one_of_few, publishing, record, where_it_broke
from knowledge.text_hash import text_hasher
from spot_sdk.errors import Conflict


@pytest.fixture(autouse=True)
def _nobody_met_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_known_names", set[str]())
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "spot-test")


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_series_is_one_line_and_lines_name_what_cloudwatch_makes_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with publishing():
        for seconds in (0.5, 0.25):
            record(metrics.QUERY_DURATION, seconds, cache_hit="true", has_tag_filter="false")
        record(metrics.DOCS, 7)
        assert not capsys.readouterr().out
    first, second = printed(capsys)
    (told,) = first["_aws"]["CloudWatchMetrics"]
    assert told == {
        "Namespace": "spot-test",
        "Dimensions": [["cache_hit", "has_tag_filter"], ["cache_hit"], []],
        "Metrics": [{"Name": "knowledge_query_duration_seconds", "Unit": "Seconds"}],
    }
    assert (first["cache_hit"], first["has_tag_filter"]) == ("true", "false")
    assert first["knowledge_query_duration_seconds"] == [0.5, 0.25]
    assert second["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]
    assert second["knowledge_docs_total"] == [7.0]


def test_values_beyond_what_one_line_may_have_go_into_further_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with publishing():
        for _ in range(250):
            record(metrics.EMBED_DURATION, 0.1, backend="hash")
    lines = printed(capsys)
    assert sum(len(line["knowledge_embed_duration_seconds"]) for line in lines) == 250
    assert max(len(line["knowledge_embed_duration_seconds"]) for line in lines) <= 100
    assert all(line["backend"] == "hash" for line in lines)


def test_what_was_recorded_is_published_when_the_block_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> None:
        with publishing():
            record(metrics.CLEANUP_DELETED, 3)
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        breaks()
    assert printed(capsys)[0]["knowledge_cleanup_deleted_total"] == [3.0]


def test_a_command_prints_no_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    record(metrics.CLEANUP_DELETED, 3)
    with publishing():
        pass
    assert not capsys.readouterr().out


def test_a_dimension_has_few_values_whoever_writes() -> None:
    assert one_of_few("provider-wiki") == "provider-wiki"
    assert one_of_few("") == "unnamed"
    assert one_of_few("alice@example.com") == "other"
    assert one_of_few("x" * 65) == "other"
    names = {one_of_few(f"source-{number}") for number in range(1_000)}
    assert "other" in names
    assert len(names) <= 33
    assert one_of_few("provider-wiki") == "provider-wiki"


def test_an_error_is_told_by_types_and_places_without_words() -> None:
    def breaks() -> None:
        try:
            raise KeyError("secret words")
        except KeyError as error:
            raise ValueError("more secret words") from error

    with pytest.raises(ValueError, match="more") as caught:
        breaks()
    told = where_it_broke(caught.value)
    assert [part["type"] for part in told] == ["ValueError", "KeyError"]
    assert told[0]["at"][-1].startswith("test_telemetry.py:")
    assert told[0]["at"][-1].endswith(" breaks")
    assert "secret" not in json.dumps(told)


def test_an_invocation_that_breaks_does_not_hand_on_words(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", log)

    def breaks() -> None:
        with of_event("request-1"):
            assert correlation.current() == "request-1"
            raise RuntimeError("secret words")

    with pytest.raises(Broken, match=r"^RuntimeError$") as caught:
        breaks()
    assert caught.value.__suppress_context__
    assert "secret" not in log.getvalue()
    assert json.loads(log.getvalue())["correlation_id"] == "request-1"
    with pytest.raises(Conflict), of_event("request-2"):
        raise Conflict("words of ours")
    assert correlation.current() is None


def test_a_text_has_one_name_for_who_has_the_key_and_none_without() -> None:
    name = text_hasher("key")
    assert name("words") == text_hasher("key")("words")
    assert name("words") not in (name("other words"), text_hasher("another key")("words"))
    assert len(name("\ud800")) == 16
