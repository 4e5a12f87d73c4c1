"""Write the list of metrics, docs/reference/metrics.md, from knowledge/metrics.py; `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from knowledge.metrics import METRICS, NAMESPACE

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

_HEAD = f"""\
# Metrics

Made by `python tools/metrics.py` from `layers/knowledge/metrics.py`. The functions print them in CloudWatch's embedded
metric format, in the namespace `{NAMESPACE}` or that of `POWERTOOLS_METRICS_NAMESPACE` (the template sets the stack's
name). "Also by" are the further choices of dimensions under which CloudWatch has a metric; `-` is none at all.
[Operating](../guides/operating.md) tells how to read them.

| metric | kind | dimensions | also by | what it tells |
|---|---|---|---|---|
"""


def describe() -> str:
    """The page."""
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.dimensions)} | "
        f"{'; '.join(', '.join(names) or '-' for names in metric.also_by)} | {metric.help} |\n"
        for metric in METRICS
    ]
    return _HEAD + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the file is not up to date")
    page = describe()
    if not parser.parse_args().check:
        TARGET.write_text(page, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != page:
        sys.stderr.write(f"{TARGET.name} is not up to date; run python tools/metrics.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
