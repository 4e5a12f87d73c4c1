"""``python -m examples.workflow MAIL``: run the stages of ``infra/spot.yaml`` over one mail."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from examples.workflow.runner import StageOutcome, StageRunner
from examples.workflow.stages import StagesError, read_stages
from spot_sdk.email import Email
from spot_sdk.settings import api_key_from_environment

SPOT_FILE = Path(__file__).parents[2] / "infra" / "spot.yaml"


def main() -> None:
    """Print what each analyzer of each stage said; exit code 2 for what cannot be read, 1 where nobody answered."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.workflow",
        description="Send a mail through the stages of the operators' file, and print what the analyzers said.",
        epilog="SPOT_INTERNAL_API_KEY is shown to the analyzers.",
    )
    parser.add_argument("mail", type=Path, help="a file with one mail (.eml)")
    parser.add_argument("--spot", type=Path, default=SPOT_FILE, help="the operators' file (default: infra/spot.yaml)")
    parser.add_argument(
        "--analyzer",
        action="append",
        default=[],
        metavar="ID=URL",
        help="where an analyzer listens, such as analyzer-rules=http://127.0.0.1:8811; once for each",
    )
    arguments = parser.parse_args()
    urls = dict(each.partition("=")[::2] for each in arguments.analyzer)
    if not all(urls.values()):
        parser.error("--analyzer: ID=URL is expected")
    try:
        stages = read_stages(arguments.spot)
        email = Email.from_bytes(arguments.mail.read_bytes())
    except (StagesError, OSError) as error:
        parser.error(str(error))
    outcomes = asyncio.run(_run(StageRunner(stages, urls, api_key_from_environment()), email))
    for outcome in outcomes:
        show(outcome)
    said = [each.result for outcome in outcomes for each in outcome.outcomes]
    sys.exit(0 if any(said) else 1)


async def _run(runner: StageRunner, email: Email) -> list[StageOutcome]:
    async with runner:
        return await runner.run(email)


def show(outcome: StageOutcome) -> None:
    """A stage and its analyzers, a line for each finding."""
    print(outcome.stage)
    for each in outcome.outcomes:
        if each.result is None:
            print(f"  {each.analyzer}: {each.error}")
            continue
        verdict = {True: "phishing", False: "clean", None: "abstains"}[each.result.is_phishing]
        print(f"  {each.analyzer}: {verdict}, confidence {each.result.confidence:.2f}, {each.milliseconds:.0f} ms")
        for indicator in each.result.indicators:
            print(f"    {indicator.weight:.2f}  {indicator.message}")


if __name__ == "__main__":
    main()
