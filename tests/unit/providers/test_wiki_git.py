"""A wiki in git, with the real git: only what was committed is read, and only when it is all there."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from examples.providers.listing import Deadline, Listing, SourceFailed
from examples.providers.wiki.pages import read_wiki
from examples.providers.wiki.settings import wiki
from spot_sdk.errors import DeadlineExceeded


@pytest.fixture(autouse=True)
def _git_without_the_machines_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@co.example")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def commit(folder: Path, **pages: str) -> None:
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "Change pages")


def install_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let ``git`` be this shell script from now on."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--initial-branch=main", ".")
    commit(folder, payments="Two people sign.", gifts="Nobody buys gift cards.")
    return folder


@pytest.fixture
def checkout(tmp_path: Path, origin: Path) -> Path:
    git(tmp_path, "clone", str(origin), "checkout")
    return tmp_path / "checkout"


def read(folder: Path, seconds: float = 60, **environment: str) -> Listing:
    return read_wiki(wiki({"WIKI_PATH": str(folder), **environment}), 900, Deadline.after(seconds))


def pages(listing: Listing) -> list[str]:
    return [document.metadata["path"] for document in listing.documents]


def test_drafts_that_were_never_committed_are_not_read(checkout: Path) -> None:
    (checkout / "draft.md").write_text("Perhaps.")
    assert pages(read(checkout)) == ["gifts.md", "payments.md"]


@pytest.mark.parametrize("change", ["lose", "alter", "stage"])
def test_a_work_tree_that_is_not_what_was_committed_is_no_listing(checkout: Path, change: str) -> None:
    if change == "lose":
        (checkout / "payments.md").unlink()
    else:
        (checkout / "payments.md").write_text("One person signs.")
    if change == "stage":
        git(checkout, "add", "--all")
    with pytest.raises(SourceFailed, match=r"1 files differ from what was committed \(payments\.md\)"):
        read(checkout)


def test_pulling_brings_what_others_committed(origin: Path, checkout: Path) -> None:
    commit(origin, visitors="Visitors wear badges.")
    assert "visitors.md" not in pages(read(checkout))
    assert pages(read(checkout, WIKI_GIT_PULL="1")) == ["gifts.md", "payments.md", "visitors.md"]


def test_a_history_that_was_rewritten_is_no_listing(origin: Path, checkout: Path) -> None:
    git(origin, "commit", "--amend", "--message", "Another past")
    with pytest.raises(SourceFailed, match=r"git pull failed: .*fast-forward"):
        read(checkout, WIKI_GIT_PULL="1")
    assert pages(read(checkout)) == ["gifts.md", "payments.md"]


def test_a_complaint_is_told_without_the_credentials_in_it(checkout: Path, tmp_path: Path, monkeypatch) -> None:
    complain = 'echo "fatal: unable to access https://ada:s3cret@git.co.example/wiki.git" >&2; exit 128'
    install_git(tmp_path, monkeypatch, complain)
    with pytest.raises(SourceFailed, match=r"git pull failed: fatal: .* https://git\.co\.example/wiki\.git$"):
        read(checkout, WIKI_GIT_PULL="1")


def test_a_folder_that_only_looks_like_a_checkout_is_no_listing(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "page.md").write_text("text")
    with pytest.raises(SourceFailed, match=r"git rev-parse failed: .*not a git repository"):
        read(tmp_path)


def test_a_commit_that_comes_while_pages_are_read_is_no_listing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = Path.open

    def open_and_commit(path: Path, *arguments: object, **options: object):
        if path.name == "gifts.md":
            git(checkout, "commit", "--allow-empty", "--message", "Meanwhile")
        return really_open(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_and_commit)
    with pytest.raises(SourceFailed, match="another commit was checked out"):
        read(checkout)


@pytest.fixture
def slow_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that waits with a child of its own, as the real one waits for ssh; the file with both pids."""
    pids = tmp_path / "pids"
    install_git(tmp_path, monkeypatch, f'sleep 60 &\necho $$ $! > "{pids}"\nwait')
    return pids


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("seconds", "patience", "error"), [(60, "0.5", SourceFailed), (0.5, "60", DeadlineExceeded)])
def test_a_git_that_hangs_is_ended_with_its_children(
    checkout: Path, slow_git: Path, seconds: float, patience: str, error: type[Exception]
) -> None:
    started = time.monotonic()
    with pytest.raises(error):
        read(checkout, seconds, WIKI_GIT_PULL="1", WIKI_GIT_TIMEOUT_S=patience)
    assert time.monotonic() - started < 10
    for pid in map(int, slow_git.read_text().split()):
        until = time.monotonic() + 5
        while is_running(pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert not is_running(pid)
