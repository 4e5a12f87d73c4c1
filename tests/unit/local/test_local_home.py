from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local.files import write_private
from local.home import Home, StackState
from local.processes import ProcessMark
from spot_sdk.errors import InvalidInput, NotFound


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "above" / "home")
    home.make()
    return home


def _state(*processes: ProcessMark) -> StackState:
    return StackState(
        pid=os.getpid(),
        port=8787,
        url="http://127.0.0.1:8787",
        knowledge_url="http://127.0.0.1:8787/api/v1/knowledge",
        aws_endpoint_url="http://127.0.0.1:5000",
        processes=list(processes),
    )


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_its_owners_alone(home: Home) -> None:
    assert _mode(home.path) == _mode(home.path / "logs") == 0o700


def test_a_home_that_is_there_keeps_its_mode(home: Home) -> None:
    home.path.chmod(0o755)
    home.make()
    assert _mode(home.path) == 0o755


def test_a_home_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidInput, match=rf"^KNOWLEDGE_HOME={re.escape(str(path))} cannot be used: [^\n]+$"):
            Home(path).make()


def test_the_key_is_made_once(home: Home) -> None:
    with pytest.raises(NotFound, match="`make up` makes it"):
        home.api_key()
    key = home.ensure_api_key()
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", key)
    assert home.ensure_api_key() == home.api_key() == key
    assert home.api_key_path.read_text() == f"{key}\n"
    assert _mode(home.api_key_path) == 0o600


def test_two_homes_have_two_keys(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.make()
    assert home.ensure_api_key() != other.ensure_api_key()


def test_an_operators_own_key_is_taken_as_it_is(home: Home) -> None:
    home.api_key_path.write_text("  my own\n\n")
    assert home.ensure_api_key() == "my own"


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_spoilt_key_file_is_said_and_not_replaced(home: Home, content: bytes) -> None:
    home.api_key_path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"api-key (is empty|cannot be read)"):
        home.ensure_api_key()
    assert home.api_key_path.read_bytes() == content


def test_the_state_is_that_of_a_stack_that_runs(home: Home) -> None:
    assert home.running_stack() is None
    home.write_state(_state())
    assert home.running_stack() is None, "the lock is free: whoever wrote this was killed"
    home.lock.acquire()
    assert home.running_stack() == _state()
    home.state_path.write_text("{")
    assert home.running_stack() is None
    home.clear_state()
    assert home.running_stack() is None
    home.lock.release()


@contextmanager
def _process() -> Generator[subprocess.Popen[bytes]]:
    """A process that waits; on its way into its program it would still show the name of ours."""
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_leftovers_of_a_killed_stack_are_stopped(home: Home) -> None:
    with _process() as leftover:
        home.write_state(_state(ProcessMark.of(leftover.pid)))
        home.stop_leftovers()
        leftover.wait(10)
    assert not home.state_path.exists()
    home.stop_leftovers()


def test_a_process_that_got_the_number_of_a_leftover_is_left_alone(home: Home) -> None:
    with _process() as stranger:
        mark = ProcessMark.of(stranger.pid)
        older = mark.model_copy(update={"started": mark.started - 3600})
        other = mark.model_copy(update={"program": ["python", "-m", "local.lambda_service"]})
        home.write_state(_state(older, other))
        home.stop_leftovers()
        assert stranger.poll() is None


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old and readable by all")
    path.chmod(0o644)
    (tmp_path / ".secret.new").write_text("left behind by a crash")
    write_private(path, "new")
    assert path.read_text() == "new"
    assert _mode(path) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]
