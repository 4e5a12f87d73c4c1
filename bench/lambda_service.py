"""What the local Lambda service adds to a function: `python bench/lambda_service.py [REQUESTS]`.

One client, one keep-alive connection, a function that only echoes. Prints the time of a request through the HTTP API, a
Function URL and the Invoke operation; of the invocation alone, between handing out the event and taking the answer over
the Runtime API (the Duration in the log's REPORT lines); and of a first request, which starts a process.
"""

from __future__ import annotations

import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
TEMPLATE = REPOSITORY / "tests" / "e2e" / "fixtures_functions" / "template.yaml"
WARM_UP = 50
COLD_STARTS = 10
JSON = {"Content-Type": "application/json"}
WAYS_IN = {
    "HTTP API": "/echo/x",
    "Function URL": "/lambda-url/EchoFunction/x",
    "Invoke": "/2015-03-31/functions/EchoFunction/invocations",
}


@contextmanager
def service(log_path: Path) -> Iterator[http.client.HTTPConnection]:
    command = [sys.executable, "-m", "local.lambda_service", "--template", str(TEMPLATE), "--port", "0", "--no-reload"]
    with subprocess.Popen(  # noqa: S603
        [*command, "--log-file", str(log_path)], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().strip().rpartition("//")[2].split(":")
        connection = http.client.HTTPConnection(host, int(port))
        try:
            yield connection
        finally:
            connection.close()
            process.terminate()


def ask(connection: http.client.HTTPConnection, path: str) -> float:
    """The milliseconds of one request."""
    started = time.perf_counter()
    connection.request("POST", path, b'{"a": 1}', JSON)
    response = connection.getresponse()
    response.read()
    assert response.status == 200
    return (time.perf_counter() - started) * 1000


def report(what: str, times_ms: list[float]) -> None:
    p95_ms = statistics.quantiles(times_ms, n=20)[-1]
    sys.stdout.write(
        f"{what:28} p50 {statistics.median(times_ms):7.2f} ms   p95 {p95_ms:7.2f} ms   least {min(times_ms):7.2f} ms\n"
    )


def main(requests: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        warm_log = Path(folder) / "warm.log"
        with service(warm_log) as connection:
            for name, path in WAYS_IN.items():
                for _ in range(WARM_UP):
                    ask(connection, path)
                report(f"warm, {name}", [ask(connection, path) for _ in range(requests)])
        durations = re.findall(r"\tDuration: ([\d.]+) ms", warm_log.read_text(encoding="utf-8"))
        report("warm, Runtime API alone", [float(duration) for duration in durations[WARM_UP:]])
        cold_ms: list[float] = []
        for number in range(COLD_STARTS):
            with service(Path(folder) / f"cold-{number}.log") as connection:
                cold_ms.append(ask(connection, WAYS_IN["Invoke"]))
        report("cold, Invoke", cold_ms)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
