"""How many requests at once Lambda, and the database behind it, can bear: a simulation (docs/scale.md holds its table).

    .venv/bin/python -m bench.concurrency [--environments 40] [--cores 2] [--database-ms 6] [--handler-ms 8]
                                          [--cold-ms 1500] [--seconds 120] [--rates 10 50 100 ...]

Requests arrive at random (Poisson) at each rate. A request takes a free environment of the function, or starts one,
and that takes a cold start; where all that are reserved are busy it is refused at once, as Lambda does (429). An
environment has one connection, and the queries of all share the database's cores evenly. The work of a request is
drawn from lognormal distributions with the given medians and twice these as 95th percentiles (``bench/figures.py``
measures both).

With ``--clients 16`` that many ask one question after another instead and wait for a free environment, as
``bench/figures.py`` does with the local service, so that the simulation can be held against a measurement. On one
machine all work shares the same cores: give it as ``--database-ms`` and leave ``--handler-ms`` at next to nothing.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

SPREAD = math.log(2) / 1.645
"""Sigma of a lognormal distribution whose 95th percentile is twice its median."""


@dataclass(frozen=True)
class Setting:
    """Times in milliseconds; ``environments`` is the reserved concurrency, each with one connection."""

    environments: int
    cores: int
    database_ms: float
    handler_ms: float
    cold_ms: float
    seconds: float


@dataclass
class Outcome:
    latencies_ms: list[float] = field(default_factory=list)
    refused: int = 0
    most_environments: int = 0
    busy_ms: float = 0.0

    def row(self, rate: str, setting: Setting) -> str:
        asked = len(self.latencies_ms) + self.refused
        p50, p95, p99 = percentiles(self.latencies_ms)
        share = self.refused / asked if asked else 0.0
        load = self.busy_ms / (setting.cores * setting.seconds * 1000)
        answered = len(self.latencies_ms) / setting.seconds
        return (
            f"| {rate} | {answered:,.0f} | {p50:,.0f} | {p95:,.0f} | {p99:,.0f} | {share:.1%} | "
            f"{self.most_environments} of {setting.environments} | {min(load, 1):.0%} |"
        )


HEAD = (
    "| asked a second | answered a second | p50 ms | p95 ms | p99 ms | refused | most connections | database busy |\n"
    "|---|---|---|---|---|---|---|---|"
)


class SharedCores:
    """Jobs that share ``cores`` evenly, none faster than one core: processor sharing in virtual time."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._jobs: list[tuple[float, int]] = []
        self._virtual = 0.0
        self.now = 0.0
        self.busy_ms = 0.0

    def advance(self, now: float) -> None:
        elapsed = now - self.now
        self._virtual += elapsed * self._speed()
        self.busy_ms += elapsed * min(len(self._jobs), self._cores)
        self.now = now

    def add(self, job: int, work_ms: float) -> None:
        heapq.heappush(self._jobs, (self._virtual + work_ms, job))

    def next_end(self) -> float:
        """When the next job is done if none is added; infinity where there is none."""
        return self.now + (self._jobs[0][0] - self._virtual) / self._speed() if self._jobs else math.inf

    def finish(self) -> int:
        return heapq.heappop(self._jobs)[1]

    def _speed(self) -> float:
        return min(1.0, self._cores / len(self._jobs)) if self._jobs else 1.0


def simulate(setting: Setting, rate: float | None, clients: int = 0, seed: int = 1) -> Outcome:
    """``rate`` requests a second, or ``clients`` that ask again as soon as they are answered."""
    dice = random.Random(seed)  # noqa: S311 - a simulation
    outcome = Outcome()
    cores = SharedCores(setting.cores)
    end = setting.seconds * 1000
    idle = environments = 0
    waiting: deque[int] = deque()
    started: dict[int, float] = {}
    numbers = iter(range(10**9))
    # (time, what, request): "asked" enters, "ready" has its handler's work behind it and goes to the database
    events: list[tuple[float, str, int]] = []

    def draw(median_ms: float) -> float:
        return dice.lognormvariate(math.log(median_ms), SPREAD)

    def ask_at(moment: float) -> None:
        if moment < end:
            heapq.heappush(events, (moment, "asked", next(numbers)))

    for _ in range(clients):
        ask_at(dice.random())
    if rate is not None:
        ask_at(dice.expovariate(rate) * 1000)
    while events or cores.next_end() < math.inf:
        due = events[0][0] if events else math.inf
        if cores.next_end() <= due:
            cores.advance(cores.next_end())
            now, request = cores.now, cores.finish()
            outcome.latencies_ms.append(now - started.pop(request))
            if clients:
                ask_at(now)
            if waiting:
                heapq.heappush(events, (now + draw(setting.handler_ms), "ready", waiting.popleft()))
            else:
                idle += 1
            continue
        now, what, request = heapq.heappop(events)
        cores.advance(now)
        if what == "ready":
            cores.add(request, draw(setting.database_ms))
            continue
        if rate is not None:
            ask_at(now + dice.expovariate(rate) * 1000)
        cold_ms = 0.0
        if idle:
            idle -= 1
        elif environments < setting.environments:
            environments += 1
            cold_ms = setting.cold_ms
        elif clients:
            started[request] = now
            waiting.append(request)
            continue
        else:
            outcome.refused += 1
            continue
        started[request] = now
        heapq.heappush(events, (now + cold_ms + draw(setting.handler_ms), "ready", request))
    outcome.most_environments = environments
    outcome.busy_ms = cores.busy_ms
    return outcome


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return (values[0],) * 3 if values else (0.0, 0.0, 0.0)
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[94], cuts[98]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=40, help="reserved concurrency (%(default)s)")
    parser.add_argument("--cores", type=int, default=2, help="of the database (%(default)s)")
    parser.add_argument("--database-ms", type=float, default=6, help="work of a query there, median (%(default)s)")
    parser.add_argument("--handler-ms", type=float, default=8, help="work in the function, median (%(default)s)")
    parser.add_argument("--cold-ms", type=float, default=1500, help="first request of an environment (%(default)s)")
    parser.add_argument("--seconds", type=float, default=120, help="simulated time (%(default)s)")
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 50, 100, 200, 300, 400, 600, 1000])
    parser.add_argument("--clients", type=int, default=0, help="clients that ask one after another, in place of rates")
    given = parser.parse_args()
    setting = Setting(
        given.environments, given.cores, given.database_ms, given.handler_ms, given.cold_ms, given.seconds
    )
    print(HEAD)
    if given.clients:
        print(simulate(setting, None, given.clients).row(f"{given.clients} clients", setting))
        return
    for rate in given.rates:
        print(simulate(setting, rate).row(f"{rate:,.0f}", setting))


if __name__ == "__main__":
    main()
