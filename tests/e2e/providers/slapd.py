"""A real directory server for one test: OpenLDAP's slapd on a folder and a loopback port of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASSWORD = "reader's secret"
SCHEMAS = ("core", "cosine", "inetorgperson")


def find_slapd() -> str | None:
    """Debian puts it where only root's PATH leads."""
    return shutil.which("slapd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@dataclass
class Slapd:
    """A server that holds the entries of some LDIF files. It shows them to ``reader_dn``, within limits."""

    folder: Path
    suffix: str
    port: int
    process: subprocess.Popen[bytes]
    ldaps_port: int | None = None

    @property
    def reader_dn(self) -> str:
        return f"cn=reader,{self.suffix}"

    @property
    def environment(self) -> dict[str, str]:
        """What tells the employee directory to read this server, without TLS."""
        return {
            "EMPLOYEE_DIR_LDAP_URL": f"ldap://127.0.0.1:{self.port}",
            "EMPLOYEE_DIR_LDAP_TLS": "off",
            "EMPLOYEE_DIR_LDAP_BASE": self.suffix,
            "EMPLOYEE_DIR_LDAP_BIND_DN": self.reader_dn,
            "EMPLOYEE_DIR_LDAP_BIND_PASSWORD": PASSWORD,
            "EMPLOYEE_DIR_LDAP_TIMEOUT_S": "5",
        }

    @contextmanager
    def administer(self) -> Generator[Any]:
        """A connection that may change everything and raises when it cannot."""
        import ldap3

        server = ldap3.Server("127.0.0.1", port=self.port, get_info=ldap3.NONE)
        with ldap3.Connection(
            server, f"cn=admin,{self.suffix}", PASSWORD, raise_exceptions=True, check_names=False
        ) as connection:
            yield connection

    def kill(self) -> None:
        """As the kernel does when memory runs out: no farewell to anybody."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)


@contextmanager
def running_slapd(
    folder: Path,
    suffix: str,
    files: Sequence[Path],
    *,
    entries: str = "",
    limits: str = "",
    tls: dict[str, Path] | None = None,
    security: str = "",
) -> Generator[Slapd]:
    """Load the files (and ``entries``, LDIF too) and serve them; the server is gone at the end, whatever happened.

    ``limits`` and ``security`` are lines of slapd.conf; ``tls`` maps its TLS settings to files.
    """
    program = find_slapd()
    assert program, "call find_slapd first"
    (folder / "db").mkdir(parents=True)
    reader = (
        f"dn: cn=reader,{suffix}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\n"
        f"cn: reader\nuserPassword: {PASSWORD}\n"
    )
    config = folder / "slapd.conf"
    config.write_text(
        "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in SCHEMAS)
        + f"pidfile {folder}/slapd.pid\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n"
        + "".join(f"{name} {path}\n" for name, path in (tls or {}).items())
        + f"{security}\ndatabase mdb\nmaxsize 67108864\nsuffix {suffix}\n"
        + f'rootdn cn=admin,{suffix}\nrootpw "{PASSWORD}"\ndirectory {folder}/db\n{limits}\n'
        + "access to attrs=userPassword by anonymous auth by * none\naccess to * by users read by * none\n"
    )
    for number, text in enumerate([*(path.read_text() for path in files), entries, reader]):
        if text:
            part = folder / f"{number}.ldif"
            part.write_text(text)
            add = [program, "-T", "add", "-q", "-f", str(config), "-l", str(part)]
            subprocess.run(add, check=True, capture_output=True)
    port, ldaps_port = _free_port(), _free_port() if tls else None
    urls = f"ldap://127.0.0.1:{port}" + (f" ldaps://127.0.0.1:{ldaps_port}" if ldaps_port else "")
    with (folder / "slapd.log").open("wb") as log:
        process = subprocess.Popen([program, "-h", urls, "-f", str(config), "-d", "0"], stdout=log, stderr=log)
    try:
        _wait_until_it_listens(process, port, folder / "slapd.log")
        yield Slapd(folder, suffix, port, process, ldaps_port)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"slapd does not listen: {log.read_text(errors='replace')}")
