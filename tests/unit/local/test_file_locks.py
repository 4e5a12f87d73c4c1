from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.locks import FileLock
from local.settings import CHECKOUT
from spot_sdk.errors import Conflict


@pytest.fixture
def lock(tmp_path: Path) -> FileLock:
    return FileLock(tmp_path / "lock", guards="the folder")


def test_a_held_lock_refuses_another_holder_and_names_the_first(lock: FileLock) -> None:
    lock.acquire()
    with pytest.raises(Conflict, match=rf"^the folder is in use by another stack \(pid {os.getpid()}\)\. [^\n]*$"):
        FileLock(lock.path, guards="the folder").acquire()
    lock.release()


def test_a_released_lock_can_be_taken_again_and_released_twice(lock: FileLock) -> None:
    lock.path.write_text("99999999999 and more, of a holder that was killed\n")
    for _ in range(2):
        lock.acquire()
        assert lock.path.read_text() == f"{os.getpid()}\n"
        assert lock.is_held()
        lock.release()
        lock.release()
        assert not lock.is_held()


def test_asking_whether_a_lock_is_held_makes_no_file_and_takes_no_lock(lock: FileLock) -> None:
    assert not lock.is_held()
    assert not lock.path.exists()
    lock.acquire()
    other = FileLock(lock.path, guards="it")
    assert other.is_held()
    assert other.is_held()
    lock.release()


def test_the_kernel_releases_the_lock_of_a_killed_process(lock: FileLock) -> None:
    script = (
        "import pathlib, sys; from local.locks import FileLock;"
        f"FileLock(pathlib.Path({str(lock.path)!r}), guards='it').acquire(); print('held', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Conflict, match=rf"\(pid {holder.pid}\)"):
            lock.acquire()
        holder.kill()
        holder.wait()
        lock.acquire()
    assert lock.path.read_text() == f"{os.getpid()}\n"
    lock.release()


def test_a_link_planted_in_place_of_the_lock_is_not_written_through(lock: FileLock, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock.path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        lock.acquire()
    assert victim.read_text() == "precious"
