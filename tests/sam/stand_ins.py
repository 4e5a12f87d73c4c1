"""Stand-ins for the official images, made of Debian packages and wheels, for machines that reach no image registry.

They carry the official names, so that SAM and infra/compose.yaml take them as they are, and a label that says what they
are. What is the same and what is not stands in docs/adr/0013-docker-and-sam.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from docker_engine import DockerImpossible, Engine

CHECKOUT = Path(__file__).resolve().parents[2]
LABEL = "spot.stand-in"
SUITE = "trixie"  # Python 3.13, PostgreSQL 17, pgvector
MACHINE = os.uname().machine
SAM_MACHINE = {"x86_64": "x86_64", "aarch64": "arm64"}[MACHINE]

TRIXIE = "spot-stand-in/trixie"
RUNTIME = f"public.ecr.aws/lambda/python:3.13-{SAM_MACHINE}"

# What AWS's image of the runtime holds, too: the interface client, and boto3.
_IN_RUNTIME = [
    *("awslambdaric", "simplejson", "snapshot-restore-py"),
    *("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3"),
]
_BOOTSTRAP = """#!/bin/sh
export PYTHONPATH=/opt/python:/var/runtime
cd "$LAMBDA_TASK_ROOT"
exec python3.13 -m awslambdaric "$_HANDLER"
"""
_RUNTIME_DOCKERFILE = f"""FROM {TRIXIE}
COPY runtime /var/runtime
ENV LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime LANG=C.UTF-8 TZ=:UTC
WORKDIR /var/task
"""
# As much of the official image's contract as infra/compose.yaml uses.
_POSTGRES_ENTRY_POINT = """#!/bin/sh
set -eu
data=/var/lib/postgresql/data
bin=/usr/lib/postgresql/17/bin
as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
if [ ! -s "$data/PG_VERSION" ]; then
    install -d -o postgres -g postgres -m 700 "$data"
    printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
    chown postgres /tmp/password
    as_postgres "$bin/initdb" --pgdata "$data" --username "$POSTGRES_USER" --pwfile /tmp/password \\
        --auth-local trust --auth-host scram-sha-256 --encoding UTF8 --locale C.UTF-8
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    as_postgres "$bin/pg_ctl" --pgdata "$data" --wait --options "-c listen_addresses=''" start
    as_postgres "$bin/createdb" --username "$POSTGRES_USER" "${POSTGRES_DB:-$POSTGRES_USER}" || true
    as_postgres "$bin/pg_ctl" --pgdata "$data" --wait stop
fi
exec setpriv --reuid postgres --regid postgres --init-groups "$bin/postgres" -D "$data" -c 'listen_addresses=*'
"""
_POSTGRES_PACKAGES = ["postgresql-17", "postgresql-17-pgvector"]


def make_stand_ins(engine: Engine, cache: Path, *, database: str, python: str) -> None:
    """See to it that the engine has the runtime, and ``database`` and ``python`` by these names; once.

    The first time takes three to five minutes and some hundred megabytes of Debian's packages.
    """
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    made = all(engine.label_of(image, LABEL) == recipe for image in (RUNTIME, database, python))
    if made and (cache / "docker-compose").exists():
        return
    if shutil.which("debootstrap") is None:
        raise DockerImpossible("the stand-in images need debootstrap; on Debian: apt install debootstrap")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        root = Path(scratch) / "root"
        _say(f"making the stand-in images, once: Debian {SUITE}")
        _run(["debootstrap", "--variant=minbase", "--include=python3,ca-certificates", SUITE, str(root)])
        _import(engine, root, TRIXIE, recipe)
        _say("  the runtime: awslambdaric")
        _build_runtime(engine, Path(scratch) / "context")
        engine.docker("tag", TRIXIE, python)
        _say(f"  the database: {', '.join(_POSTGRES_PACKAGES)}")
        _install_postgres(root)
        entry_point = 'ENTRYPOINT ["/usr/local/bin/docker-entrypoint.sh"]'
        _import(engine, root, database, recipe, entry_point, "EXPOSE 5432")
        _take_compose(root, cache / "docker-compose")


def install_compose(engine: Engine, cache: Path) -> None:
    """See to it that ``docker compose`` works with an engine of ours, by Debian's package of it.

    The release of Debian that has our engine has only an older program of that name, so it is trixie's.
    """
    plugins = Path(engine.environment["DOCKER_CONFIG"]) / "cli-plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / "docker-compose").symlink_to((cache / "docker-compose").absolute())


def _build_runtime(engine: Engine, context: Path) -> None:
    runtime = context / "runtime"
    runtime.mkdir(parents=True)
    requirements = context / "requirements.txt"
    requirements.write_text("\n".join(locked(CHECKOUT / "locks" / "run.txt", _IN_RUNTIME)))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--require-hashes", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.13"]
    pip += ["--platform", f"manylinux2014_{MACHINE}", "--platform", f"manylinux_2_28_{MACHINE}"]
    _run([*pip, "--target", str(runtime), "--requirement", str(requirements)])
    bootstrap = runtime / "bootstrap"
    bootstrap.write_text(_BOOTSTRAP)
    bootstrap.chmod(0o755)
    (context / "Dockerfile").write_text(_RUNTIME_DOCKERFILE)
    engine.docker("build", "--quiet", "--tag", RUNTIME, str(context))


def _install_postgres(root: Path) -> None:
    no_cluster = root / "etc" / "postgresql-common" / "createcluster.conf"
    no_cluster.parent.mkdir(parents=True, exist_ok=True)
    no_cluster.write_text("create_main_cluster = false\n")
    no_service = root / "usr" / "sbin" / "policy-rc.d"
    no_service.write_text("#!/bin/sh\nexit 101\n")
    no_service.chmod(0o755)
    inside = ["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    _run([*inside, "install", "-q", "-y", "--no-install-recommends", *_POSTGRES_PACKAGES])
    _run([*inside, "clean"])
    entry_point = root / "usr" / "local" / "bin" / "docker-entrypoint.sh"
    entry_point.write_text(_POSTGRES_ENTRY_POINT)
    entry_point.chmod(0o755)


def _take_compose(root: Path, plugin: Path) -> None:
    fetch = "cd /tmp && apt-get download -q docker-compose && dpkg-deb --extract docker-compose_*.deb compose"
    _run(["chroot", str(root), "sh", "-c", fetch])
    shutil.copy2(root / "tmp/compose/usr/libexec/docker/cli-plugins/docker-compose", plugin)


def _import(engine: Engine, root: Path, image: str, recipe: str, *changes: str) -> None:
    """Make an image of a folder, without what apt keeps for itself."""
    left_out = ("./var/cache/apt/*.bin", "./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*")
    pack = ["tar", "--create", "--directory", str(root), *(f"--exclude={path}" for path in left_out), "."]
    load = ["docker", "import", *_changes(f"LABEL {LABEL}={recipe}", *changes), "-", image]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
        subprocess.run(load, env=engine.environment, stdin=tar.stdout, stdout=subprocess.DEVNULL, check=True)
    if tar.returncode:
        raise RuntimeError(f"tar could not read {root}")


def _changes(*changes: str) -> Iterable[str]:
    for change in changes:
        yield from ("--change", change)


def locked(lock: Path, names: Iterable[str]) -> list[str]:
    """The lines of a lock, with their hashes, for packages of these names. Raises LookupError when one is not there."""
    blocks = {block.partition("==")[0]: block for block in re.split(r"\n(?=[a-z0-9])", lock.read_text())}
    return [re.sub(r"\n +#.*", "", blocks[name]) for name in names]


def _run(command: list[str]) -> None:
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{command[0]} failed:\n" + "\n".join(run.stdout.splitlines()[-15:]))


def _say(what: str) -> None:
    print(what, file=sys.__stderr__, flush=True)
