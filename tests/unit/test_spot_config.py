"""The operators' file: what it may say, and how it is refused - with the line and the field."""

from __future__ import annotations

import itertools
from pathlib import Path
from textwrap import dedent

import pytest

from knowledge.sync.config import ConfigError, SpotConfig, load, parse

SHIPPED = Path(__file__).resolve().parents[2] / "infra" / "spot.yaml"

VALID = """\
plugins:
  context_providers:
    employee-dir:
      enabled: true
      url: http://provider-employee-dir:8000
      sync_schedule: "0 */6 * * *"
      sync_timeout_ms: 120000
sync:
  allow_http_hosts: [provider-employee-dir]
stages:
  - name: enrichment
    retrieval_limits:
      max_top_k: 10
      min_score_floor: 0.3
    analyzers:
      - id: analyzer-llm
      - id: analyzer-rules
"""


def refused(text: str) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(ConfigError) as refusal:
        parse(text)
    return str(refusal.value).splitlines()


def changed(old: str, new: str) -> str:
    assert VALID.count(old) == 1
    return VALID.replace(old, new)


def one_provider(lines: str) -> str:
    head = "plugins:\n  context_providers:\n    wiki:\n"
    return head + "".join(f"      {line}\n" for line in dedent(lines).strip().splitlines())


def test_the_shipped_file_declares_the_two_example_providers_and_two_stages() -> None:
    config = load(SHIPPED)
    assert set(config.providers) == {"employee-dir", "wiki"}
    for provider in config.providers.values():
        assert provider.enabled
        assert provider.sync_schedule
    assert len(config.stages) == 2
    for stage in config.stages:
        assert stage.analyzers
        assert stage.retrieval_limits is not None
        assert stage.retrieval_limits.max_top_k
        assert stage.retrieval_limits.min_score_floor


def test_everything_that_the_file_can_say_is_read() -> None:
    config = parse(VALID)
    provider = config.providers["employee-dir"]
    assert provider.enabled
    assert provider.url == "http://provider-employee-dir:8000"
    assert provider.host == "provider-employee-dir"
    assert (provider.sync_schedule, provider.sync_timeout_ms) == ("0 */6 * * *", 120_000)
    assert config.sync.allow_http_hosts == ["provider-employee-dir"]
    (stage,) = config.stages
    assert stage.name == "enrichment"
    assert stage.retrieval_limits is not None
    assert (stage.retrieval_limits.max_top_k, stage.retrieval_limits.min_score_floor) == (10, 0.3)
    assert [analyzer.id for analyzer in stage.analyzers] == ["analyzer-llm", "analyzer-rules"]


def test_a_url_is_enough_and_the_rest_has_defaults() -> None:
    provider = parse(one_provider("url: https://wiki.example/base/")).providers["wiki"]
    assert provider.enabled
    assert provider.url == "https://wiki.example/base"
    assert (provider.sync_schedule, provider.sync_timeout_ms) == (None, 60_000)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "plugins: {}\nstages: []\n"])
def test_a_file_that_declares_nothing_is_valid(text: str) -> None:
    assert parse(text) == SpotConfig()


@pytest.mark.parametrize(
    ("text", "line", "field", "reason"),
    [
        (changed('"0 */6 * * *"', '"0 25 * * *"'), 6, "plugins.context_providers.employee-dir.sync_schedule", "0-23"),
        (changed('"0 */6 * * *"', '"0 0 */2 * MON"'), 6, "sync_schedule", "'0 0 */2 * *' and '0 0 * * MON'"),
        (changed('"0 */6 * * *"', '"@reboot"'), 6, "sync_schedule", "@hourly"),
        (changed('"0 */6 * * *"', "6"), 6, "sync_schedule", "string"),
        (changed("120000", "999"), 7, "plugins.context_providers.employee-dir.sync_timeout_ms", "1000"),
        (changed("120000", "840001"), 7, "sync_timeout_ms", "840000"),
        (changed("120000", "soon"), 7, "sync_timeout_ms", "integer"),
        (changed("enabled: true", "enabled: perhaps"), 4, "enabled", "boolean"),
        (changed("enabled: true", "shedule: '@daily'"), 4, "employee-dir.shedule", "not permitted"),
        (changed("employee-dir:\n", "Employee Dir:\n"), 3, "plugins.context_providers.Employee Dir", "pattern"),
        (changed("employee-dir:\n", f"{'x' * 49}:\n"), 3, "plugins.context_providers", "pattern"),
        (changed("http://provider-employee-dir:8000", "ftp://provider"), 5, "url", "http(s)"),
        (changed("http://provider-employee-dir:8000", "https://user:secret@host"), 5, "url", "without user"),
        (changed("http://provider-employee-dir:8000", "https://host/?key=1"), 5, "url", "query"),
        (changed("http://provider-employee-dir:8000", "https://host:port"), 5, "url", "http(s)"),
        (changed("http://provider-employee-dir:8000", "https://"), 5, "url", "http(s)"),
        (changed("http://provider-employee-dir:8000", "provider:8000"), 5, "url", "http(s)"),
        (changed("http://provider-employee-dir:8000", "https://@host"), 5, "url", "without user"),
        (changed("http://provider-employee-dir:8000", "https://:secret@host"), 5, "url", "without user"),
        (changed("http://provider-employee-dir:8000", "https://b\u00fccher.example"), 5, "url", "xn--"),
        (changed("http://provider-employee-dir:8000", '"https://host/\\x01"'), 5, "url", "printable"),
        (changed("http://provider-employee-dir:8000", f"https://host/{'x' * 2000}"), 5, "url", "at most 2000"),
        (changed("max_top_k: 10", "max_top_k: 0"), 13, "stages.0.retrieval_limits.max_top_k", "1"),
        (changed("min_score_floor: 0.3", "min_score_floor: 3"), 14, "stages.0.retrieval_limits.min_score_floor", "1"),
        (changed("max_top_k: 10", "max_topk: 3"), 13, "stages.0.retrieval_limits.max_topk", "not permitted"),
        (changed("max_top_k: 10", "max_top_k: true"), 13, "stages.0.retrieval_limits.max_top_k", "valid integer"),
        (changed("max_top_k: 10", "max_top_k: '3'"), 13, "stages.0.retrieval_limits.max_top_k", "valid integer"),
        (changed("min_score_floor: 0.3", "min_score_floor: true"), 14, "retrieval_limits.min_score_floor", "number"),
        (changed("name: enrichment", "name: ''"), 11, "stages.0.name", "at least 1"),
        (changed("  - name: enrichment\n", "  - title: x\n"), 11, "stages.0.name", "required"),
        (changed("- id: analyzer-rules", "- id: ''"), 17, "stages.0.analyzers.1.id", "pattern"),
        (changed("stages:", "steps:"), 10, "steps", "not permitted"),
        (one_provider("enabled: true"), 3, "plugins.context_providers.wiki.url", "required"),
    ],
)  # fmt: skip
def test_a_refusal_names_line_field_and_reason(text: str, line: int, field: str, reason: str) -> None:
    refusal = refused(text)
    found = [it for it in refusal if it.startswith(f"spot.yaml:{line}: ") and field in it and reason in it]
    assert found, refusal


def test_every_fault_is_told_at_once() -> None:
    text = changed("120000", "1").replace("max_top_k: 10", "max_top_k: 0").replace("*/6", "*/61")
    assert [line.split(":")[1] for line in refused(text)] == ["6", "7", "13"]


def test_plain_http_needs_an_allowed_host() -> None:
    (refusal,) = refused(changed("[provider-employee-dir]", "[another]"))
    assert refusal == (
        "spot.yaml:5: plugins.context_providers.employee-dir.url: "
        "use https, or add 'provider-employee-dir' to sync.allow_http_hosts"
    )
    https = changed("[provider-employee-dir]", "[]").replace("http://", "https://")
    assert parse(https).providers["employee-dir"].host == "provider-employee-dir"


def test_an_http_url_that_is_written_in_capitals_is_http_all_the_same() -> None:
    (refusal,) = refused(one_provider("url: HTTP://wiki.example"))
    assert "use https" in refusal


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (one_provider("url: https://a.example\nurl: https://b.example"), 5, "url"),
        (VALID + "stages: []\n", 18, "stages"),
        (changed("sync:\n", "    employee-dir: {url: https://b.example}\nsync:\n"), 8, "employee-dir"),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, line: int, key: str) -> None:
    (refusal,) = refused(text)
    assert refusal.startswith(f"spot.yaml:{line}: ")
    assert f"'{key}' stands twice" in refusal


@pytest.mark.parametrize("name", ["off", "1234", "null", "2026-11-30"])
def test_a_name_that_yaml_takes_for_something_else_is_refused_until_it_is_quoted(name: str) -> None:
    provider = "{url: https://a.example}"
    (refusal,) = refused(f"plugins:\n  context_providers:\n    {name}: {provider}\n")
    assert refusal.startswith("spot.yaml:3: ")
    assert "quotes" in refusal
    assert parse(f"plugins:\n  context_providers:\n    '{name}': {provider}\n").providers.keys() == {name}


@pytest.mark.timeout(10)
def test_aliases_of_aliases_are_refused_in_no_time() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghi")
    )
    assert "not permitted" in refused(bomb)[0]


def test_merge_keys_work() -> None:
    text = """\
plugins:
  context_providers:
    a: &common {url: https://a.example, sync_schedule: "@daily"}
    b: {<<: *common, url: https://b.example}
"""
    assert parse(text).providers["b"].sync_schedule == "@daily"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plugins: [1, 2\n", 2),
        ("plugins:\n\tcontext_providers: {}\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("plugins: !!python/object/apply:os.system [ls]\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: *nothing\n", 1),
        ("- a\n- b\n", 1),
        ("just text\n", 1),
        ("plugins: 3\n", 1),
        ("false\n", 1),
        ("0\n", 1),
        ("[]\n", 1),
        ("''\n", 1),
        ("stages: []\nsync: 2024-99-99\n", 2),
        ("stages: []\nsync: 0x_\n", 2),
        ("stages: []\nsync: !!int abc\n", 2),
        ("stages: []\nsync: !!float x\n", 2),
        (f"stages: []\nsync: {'9' * 5000}\n", 2),
    ],
)
def test_what_is_no_mapping_in_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    assert refused(text)[0].startswith(f"spot.yaml:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        "a: \x00\n",
        "? [1, 2]\n: b\n",
        "? {a: b}\n: c\n",
        "1: 2\n",
        "null: 2\n",
        "a: &a [*a]\n",
        "&a plugins: &b {context_providers: *b}\n",
        "plugins: " + "[" * 3000 + "]" * 3000 + "\n",
    ],
)
def test_yaml_that_nobody_would_write_is_refused_and_not_a_crash(text: str) -> None:
    assert refused(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load(tmp_path / "absent.yaml")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("# Müller".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.yaml"):
        load(latin)
    bad = tmp_path / "bad.yaml"
    bad.write_text("stages: 1\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml:1: stages: "):
        load(bad)
