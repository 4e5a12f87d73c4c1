"""The data folder ("cluster"): made whole or not at all, and looked at before a server is let near it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from local.files import sync_folder, write_private
from local.postgres.account import cluster_maker, hand_over, has_name
from local.postgres.binaries import Binaries, binaries_for
from local.processes import Account, child_command
from spot_sdk.errors import StoreUnavailable

SUPERUSER = "postgres"
ROLE = "knowledge"
DATABASE = "knowledge"
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"}
"""Of every program of PostgreSQL: nothing of ours, where a PGDATA or PGPORT might stand."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a client must know; kept beside the data in a file that only its owner can read."""

    port: int
    password: str
    superuser_password: str

    @classmethod
    def read(cls, path: Path) -> Access:
        """Raises StoreUnavailable when the file is missing or is not ours."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            complaint = "is missing"
        except (ValueError, TypeError, OSError):
            complaint = "cannot be read"
        raise StoreUnavailable(
            f"{path}, which holds the passwords of the database beside it, {complaint}. Restore it from a backup, or "
            "move the data folder away to begin with an empty database."
        )

    def write(self, path: Path) -> None:
        write_private(path, json.dumps(asdict(self)) + "\n")


@contextmanager
def reachable(folder: Path, account: Account | None) -> Generator[tuple[str, tuple[int, ...]]]:
    """A path by which a program of ``account`` reaches ``folder``, and the descriptors it must inherit for that.

    Root's folder mostly lies where no other account may enter. Opening the parents would expose them, so the program
    inherits an open descriptor of this one folder, and the kernel resolves /proc/self/fd/N without walking the path.
    """
    if account is None:
        yield str(folder), ()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}", (descriptor,)
    finally:
        os.close(descriptor)


def has_cluster(data_dir: Path, binaries: Binaries) -> bool:
    """True for a data folder of our version, False where one can be made.

    Raises StoreUnavailable for anything else that is there; it is left as it is.
    """
    if not data_dir.exists() or (data_dir.is_dir() and not any(data_dir.iterdir())):
        return False
    try:
        version = (data_dir / "PG_VERSION").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise StoreUnavailable(
            f"{data_dir} is not a PostgreSQL data folder (it has no readable PG_VERSION). Move it away to begin with "
            "an empty database, restore it from a backup, or set KNOWLEDGE_HOME to another folder."
        ) from None
    if version != binaries.major_version:
        raise StoreUnavailable(
            f"{data_dir} holds data of PostgreSQL {version[:20]}, and this is PostgreSQL {binaries.major_version}. "
            f"Export with the release that wrote it (`knowledge export`), or set KNOWLEDGE_HOME to another folder."
        )
    return True


def create_cluster(
    data_dir: Path, access: Access, access_path: Path, account: Account | None, *, durable: bool
) -> None:
    """Make ``data_dir`` a new cluster with the role and the database of the application, owned by ``account``.

    All is made in a folder beside it and renamed at the end, so an interruption leaves nothing half done. The
    application's role owns its database, may create databases and roles and see the server's statistics; it is no
    superuser, as on Aurora.

    Raises StoreUnavailable when PostgreSQL refuses.
    """
    maker = cluster_maker()
    binaries = binaries_for(maker)
    unfinished = data_dir.with_name(f".{data_dir.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    if maker is not None:
        hand_over(unfinished, maker)
    _run_initdb(binaries, unfinished, maker, access.superuser_password, durable=durable)
    _run_single_user(
        binaries,
        unfinished,
        maker,
        "CREATE EXTENSION vector",  # in template1, so in every database made from now on
        f"CREATE ROLE {ROLE} LOGIN CREATEDB CREATEROLE PASSWORD '{access.password}'",
        f"GRANT pg_monitor TO {ROLE}",
        f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
    )
    if account is not None:
        hand_over(unfinished, account)
    access.write(access_path)
    unfinished.rename(data_dir)
    sync_folder(data_dir.parent)


def new_password() -> str:
    """43 characters that need no quoting, in SQL or in an address."""
    return secrets.token_urlsafe(32)


def _run_initdb(binaries: Binaries, folder: Path, maker: Account | None, password: str, *, durable: bool) -> None:
    reader, writer = os.pipe()  # a password in an argument or a file could be read by others
    try:
        os.write(writer, f"{password}\n".encode())
        os.close(writer)
        if maker is not None:
            os.fchown(reader, maker.uid, maker.gid)
        with reachable(folder, maker) as (path, descriptors):
            _run(
                [
                    binaries.initdb,
                    f"--pgdata={path}",
                    f"--username={SUPERUSER}",
                    f"--pwfile=/dev/fd/{reader}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--no-instructions",
                    *([] if durable else ["--no-sync"]),
                ],
                maker,
                (reader, *descriptors),
            )
    finally:
        os.close(reader)


def _run_single_user(binaries: Binaries, folder: Path, maker: Account | None, *statements: str) -> None:
    with reachable(folder, maker) as (path, descriptors):
        _run(
            [binaries.postgres, "--single", "-D", path, "-c", "exit_on_error=on", "template1"],
            maker,
            descriptors,
            stdin="".join(f"{statement}\n" for statement in statements),
        )


def _run(
    program: list[str | Path], maker: Account | None, descriptors: tuple[int, ...], *, stdin: str | None = None
) -> None:
    """Run to the end. Both programs insist on a user name, which containers often lack: they get a borrowed one."""
    done = subprocess.run(  # noqa: S603 - our own programs
        child_command(program, account=maker, nameless=maker is None and not has_name(os.geteuid())),
        check=False,
        capture_output=True,
        text=True,
        input=stdin or "",
        env=ENVIRONMENT,
        pass_fds=descriptors,
        start_new_session=True,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise StoreUnavailable(f"a new database could not be set up: {said[-1]}")
