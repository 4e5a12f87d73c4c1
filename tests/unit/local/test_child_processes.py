from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from local.processes import Account, Child, child_command
from local.settings import CHECKOUT
from spot_sdk.errors import Unavailable

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
READY = "import sys, time; print('I am ready now', flush=True); "


class Starter:
    """Starts Python children for a test."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self.children: list[Child] = []

    def __call__(self, script: str) -> Child:
        child = Child.start("the child", [sys.executable, "-c", script], log_path=self.log_path, ready_text="ready now")
        self.children.append(child)
        return child


@pytest.fixture
def start(tmp_path: Path) -> Generator[Starter]:
    starter = Starter(tmp_path / "logs" / "child.log")
    yield starter
    for child in starter.children:
        child.stop(signal.SIGKILL)


def test_a_child_is_ready_with_its_line(start: Starter) -> None:
    child = start("print('first', flush=True); " + READY + "time.sleep(60)")
    assert child.wait_until_ready(30) == "I am ready now"
    assert child.running
    assert child.last_lines == ["first", "I am ready now"]
    assert child.stop() == -signal.SIGTERM
    assert not child.running
    assert start.log_path.read_text() == "first\nI am ready now\n"


def test_a_child_that_ends_before_it_is_ready_is_told_with_its_last_words(start: Starter) -> None:
    child = start("import sys; print('\\ufffd oh'); sys.stdout.flush(); sys.exit('cannot find the thing')")
    with pytest.raises(Unavailable) as failure:
        child.wait_until_ready(3600)
    assert failure.value.message == f"the child ended with exit code 1: cannot find the thing (log: {start.log_path})"


def test_a_child_that_is_killed_is_told_with_the_signal(start: Starter) -> None:
    child = start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(Unavailable, match=r"^the child was ended by SIGKILL \(log: .*\)$"):
        child.wait_until_ready(30)


def test_waiting_for_a_child_ends(start: Starter) -> None:
    with pytest.raises(Unavailable, match=r"^the child was not ready within 0 s; its output is in .*child\.log$"):
        start("import time; time.sleep(60)").wait_until_ready(0.2)


def test_a_program_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    child = Child.start("the child", [tmp_path / "absent"], log_path=tmp_path / "log", ready_text="ready")
    with pytest.raises(Unavailable, match=r"ended with exit code 126: cannot run .*absent: No such file"):
        child.wait_until_ready(30)


def test_a_child_that_ends_is_told_even_when_its_own_child_holds_its_output(start: Starter) -> None:
    child = start("import subprocess, sys; subprocess.Popen(['sleep', '5']); sys.exit(3)")
    with pytest.raises(Unavailable, match="exit code 3"):
        child.wait_until_ready(3600)


def test_a_child_that_ignores_the_signal_is_killed(start: Starter) -> None:
    child = start("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY + "time.sleep(60)")
    child.wait_until_ready(30)
    assert child.stop(grace_s=0.2) == -signal.SIGKILL


def test_signals_to_stop_are_sent_in_turn(start: Starter) -> None:
    child = start(  # a shell's background job, such as this may be part of, has SIGQUIT ignored
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGQUIT, signal.SIG_DFL); "
        + READY
        + "time.sleep(60)"
    )
    child.wait_until_ready(30)
    assert child.stop(signal.SIGINT, signal.SIGQUIT, grace_s=2.0) == -signal.SIGQUIT
    assert child.stop() == -signal.SIGQUIT, "stopping twice is no mistake"


def test_a_child_hears_no_ctrl_c_of_the_terminal(start: Starter) -> None:
    child = start(READY + "time.sleep(60)")
    assert os.getsid(child.pid) == child.pid != os.getsid(0)


def test_logs_are_rotated_and_no_line_is_lost(start: Starter) -> None:
    child = start("for i in range(12_000): print(f'{i:0999}')")
    assert child.wait() == 0
    files = sorted(start.log_path.parent.iterdir())
    assert [file.name for file in files] == ["child.log", "child.log.1", "child.log.2"]
    assert all(file.stat().st_size <= 5_000_000 for file in files)
    lines = [int(line) for file in reversed(files) for line in file.read_text().splitlines()]
    assert lines == list(range(12_000))
    assert int(child.last_lines[-1]) == 11_999


def test_bytes_that_are_no_text_do_not_stop_the_log(start: Starter) -> None:
    child = start("import os; os.write(1, b'\\xff\\xfe\\n'); os.write(1, b'after\\n')")
    assert child.wait() == 0
    assert child.last_lines[-1] == "after"


@only_linux
def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    script = f"""
import pathlib, sys
from local.processes import Child
program = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"]
child = Child.start("it", program, log_path=pathlib.Path({str(tmp_path / "log")!r}), ready_text="ready")
child.wait_until_ready(30)
print(child.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        child.wait(10)


@only_linux
def test_a_child_outlives_the_thread_that_started_it(start: Starter) -> None:
    thread = threading.Thread(target=lambda: start(READY + "time.sleep(60)").wait_until_ready(30))
    thread.start()
    thread.join()
    with pytest.raises(subprocess.TimeoutExpired):
        start.children[0]._process.wait(0.3)


@only_linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_child_runs_under_the_account_with_no_group_of_ours() -> None:
    ran = subprocess.run(
        child_command(["/bin/cat", "/proc/self/status"], account=Account(12345, 23456)),
        capture_output=True,
        text=True,
        check=True,
        extra_groups=[54321],
    )
    status = dict(line.split(":", 1) for line in ran.stdout.splitlines() if ":" in line)
    assert status["Uid"].split() == ["12345"] * 4
    assert status["Gid"].split() == ["23456"] * 4
    assert status["Groups"].strip() == ""
