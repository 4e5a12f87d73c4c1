"""The operators' file of a local stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.sync.config import load
from local.spot_file import EXAMPLE_PROVIDERS, SHIPPED, write_spot_file
from spot_sdk.errors import InvalidInput

URLS = {"employee-dir": "http://127.0.0.1:4001", "wiki": "http://127.0.0.1:4002"}


def test_the_example_providers_are_where_they_listen_and_all_else_is_as_shipped(tmp_path: Path) -> None:
    write_spot_file(tmp_path / "spot.yaml", URLS)
    local, shipped = load(tmp_path / "spot.yaml"), load(SHIPPED)
    assert {name: provider.url for name, provider in local.providers.items()} == URLS
    for name, provider in shipped.providers.items():
        assert local.providers[name] == provider.model_copy(update={"url": URLS[name]})
    assert local.stages == shipped.stages


def test_example_providers_that_do_not_run_are_not_synced(tmp_path: Path) -> None:
    write_spot_file(tmp_path / "spot.yaml", {"wiki": URLS["wiki"]})
    assert {name: provider.enabled for name, provider in load(tmp_path / "spot.yaml").providers.items()} == {
        "employee-dir": False,
        "wiki": True,
    }


def test_providers_of_others_stay_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(
        """
        plugins:
          context_providers:
            tickets: {url: "http://tickets.internal:80/base", sync_schedule: "@daily"}
            paused: {url: "https://off.example", enabled: false}
            wiki: {url: "https://wiki.example", enabled: false}
        sync: {allow_http_hosts: [tickets.internal]}
        """
    )
    write_spot_file(tmp_path / "spot.yaml", URLS, source=source)
    before, after = load(source).providers, load(tmp_path / "spot.yaml").providers
    assert (after["tickets"], after["paused"]) == (before["tickets"], before["paused"])
    assert not after["wiki"].enabled, "an example provider that its operator switched off stays off"


def test_only_its_owner_reads_it_and_it_says_where_it_comes_from(tmp_path: Path) -> None:
    target = tmp_path / "spot.yaml"
    write_spot_file(target, URLS)
    assert target.stat().st_mode & 0o777 == 0o600
    assert "infra/spot.yaml" in target.read_text().splitlines()[0]


def test_a_source_that_cannot_be_used_is_refused_with_its_line_and_leaves_the_old_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source.yaml", tmp_path / "spot.yaml"
    source.write_text("stages: 1\n")
    target.write_text("old")
    with pytest.raises(InvalidInput, match=r"source\.yaml:1: stages"):
        write_spot_file(target, {}, source=source)
    assert target.read_text() == "old"


def test_the_shipped_file_declares_the_example_providers() -> None:
    assert set(EXAMPLE_PROVIDERS) <= load(SHIPPED).providers.keys()
