"""The layer as `sam build` makes it: small, for both architectures, and quick to import where the functions run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from docker_engine import Engine
from stand_ins import CHECKOUT, RUNTIME

MAX_BYTES = 60_000_000
MAX_IMPORT_S = 0.4
RUNS = 15
_IMPORT = """import json, time
wall, cpu = time.perf_counter(), time.process_time()
import app
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))"""


def test_the_layer_is_small_and_holds_no_machine_learning(layer: Path) -> None:
    size = sum(path.stat().st_size for path in layer.rglob("*") if path.is_file())
    print(f"the layer: {size / 1e6:.1f} MB unzipped")
    assert size < MAX_BYTES
    folders = {path.name for path in (layer / "python").iterdir()}
    assert {"knowledge", "spot_sdk", "pydantic", "psycopg"} <= folders
    assert not folders & {"numpy", "onnxruntime", "tokenizers", "torch", "boto3", "botocore", "bin"}


def test_every_extension_is_there_for_both_architectures(layer: Path) -> None:
    def of(machine: str) -> set[str]:
        found = (layer / "python").rglob(f"*.cpython-313-{machine}-linux-gnu.so")
        return {str(path.relative_to(layer)).replace(machine, "") for path in found}

    assert of("x86_64") == of("aarch64")
    assert len(of("x86_64")) >= 3


def test_the_query_handler_is_imported_quickly_from_byte_code(engine: Engine, layer: Path) -> None:
    if not list((layer / "python" / "knowledge" / "__pycache__").glob("*.cpython-313.pyc")):
        pytest.skip("the layer was built without byte code, since no Python 3.13 is here")
    mounts = ["--volume", f"{layer}:/opt:ro", "--volume", f"{CHECKOUT / 'functions' / 'query'}:/var/task:ro"]
    path = ["--env", "PYTHONPATH=/opt/python:/var/runtime:/var/task", "--env", f"PROBE={_IMPORT}"]
    runs = f'for run in $(seq {RUNS}); do python3.13 -c "$PROBE"; done'
    answer = engine.docker("run", "--rm", *mounts, *path, "--entrypoint", "sh", RUNTIME, "-c", runs)
    walls, cpus = zip(*(json.loads(line) for line in answer.splitlines()), strict=True)
    print(f"import of the query handler, best of {RUNS}: {min(walls):.3f} s, {min(cpus):.3f} s of it computing")
    # The processor's time, which other work lengthens less than the clock's; and a crowded machine lengthens that, too.
    crowding = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert min(cpus) < MAX_IMPORT_S * crowding
