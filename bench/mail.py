"""How long the rules take for one mail, through a running store: questions that are new to it, and asked before.

    python -m bench.mail --url http://127.0.0.1:8787/api/v1/knowledge      # key in SPOT_INTERNAL_API_KEY

Each mail is judged three times: new to the store; again, when the store has its answers in a cache; and again with the
analyzer's own cache, which a service shares between its mails. The store holds the example company.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from eval.mail_cases import Maker
from eval.mail_directories import company
from examples.analyzers.rules.analysis import RulesAnalyzer
from examples.analyzers.rules.settings import rules
from spot_sdk.email import Email
from spot_sdk.knowledge import KnowledgeCache, KnowledgeClient
from spot_sdk.settings import api_key_from_environment

OWN = "with the analyzer's own cache"


async def measure(url: str, mails: Sequence[Email]) -> dict[str, list[float]]:
    """Milliseconds of each analysis, by what was known before."""
    analyzer = RulesAnalyzer(rules({}))
    key = api_key_from_environment()
    times: dict[str, list[float]] = {"new mail": [], "the same mail again": [], OWN: []}
    async with KnowledgeClient(url, key) as plain, KnowledgeClient(url, key, cache=KnowledgeCache()) as cached:
        await analyzer.judge(mails[0], plain)  # opens connections, and loads the model
        for mail in mails[1:]:
            for name, client in (("new mail", plain), ("the same mail again", plain), ("", cached), (OWN, cached)):
                started = time.perf_counter()
                await analyzer.judge(mail, client)
                if name:
                    times[name].append((time.perf_counter() - started) * 1000)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="base of the Knowledge API")
    parser.add_argument("--count", type=int, default=12, help="mails of each class (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another one makes mails that are new (%(default)s)")
    options = parser.parse_args()
    cases = Maker(company(900), "development", options.seed).cases(options.count)
    times = asyncio.run(measure(options.url, [Email.from_bytes(case.eml) for case in cases]))
    for name, each in times.items():
        each.sort()
        print(
            f"{name}: p50 {statistics.median(each):.0f} ms, p95 {each[int(len(each) * 0.95)]:.0f} ms, {len(each)} mails"
        )


if __name__ == "__main__":
    main()
