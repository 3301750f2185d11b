"""Print when each example's predictions were committed, beside the start of the run that they are compared with.

    python tests/support/forecast_stamps.py [--check]   from the root of a clone with its history

A prediction counts as made before a run only if a commit had the same value for it before the run started. With
--check the table of results/examples/README.md has to be what this prints.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from forecast_picture import EXAMPLES, SUITES
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from stored_files import REPORT, stored_text

PAGE = EXAMPLES / "README.md"
HEAD = (
    "| run | started (UTC) | predictions | committed before it | first stamp after it |",
    "|---|---|--:|--:|---|",
)
Prediction = tuple[str, str, str, float]


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """A commit of a suite, and what the suite predicted then."""

    commit: str
    time: datetime
    predictions: frozenset[Prediction]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def _predictions(rows: Any) -> Iterator[Prediction]:
    for row in rows or ():
        yield str(row["volume"]), str(row["step"]), str(row["metric"]), round(float(row["value"]), 6)


@cache
def stamps(suite: str) -> tuple[Stamp, ...]:
    """Return the commits of a suite, the oldest first."""
    results = []
    for line in _git("log", "--reverse", "--format=%h %cI", "--", f"suites/{suite}.yaml").splitlines():
        commit, time = line.split()
        try:
            content = YAML(typ="safe").load(_git("show", f"{commit}:suites/{suite}.yaml"))
            predictions = frozenset(_predictions(content.get("forecast", {}).get("predictions")))
        except (YAMLError, subprocess.CalledProcessError, KeyError, TypeError):
            continue
        results.append(Stamp(commit=commit, time=datetime.fromisoformat(time), predictions=predictions))
    return tuple(results)


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield from HEAD
    for example in SUITES:
        report = json.loads(stored_text(EXAMPLES / example / REPORT))
        started = datetime.fromisoformat(report["started_at"])
        history = stamps(example.partition("/")[0])
        rows = [
            (str(row["volume"]), str(row["step"]), str(row["metric"]), round(float(row["predicted"]), 6))
            for row in report.get("predictions", ())
            if not row["input"] and row["measured"] is not None
        ]
        first = [next((stamp for stamp in history if row in stamp.predictions), None) for row in rows]
        known_names = [stamp for stamp in first if stamp is not None]
        late = sorted({(stamp.time, stamp.commit) for stamp in known_names if stamp.time >= started})
        before = sum(stamp.time < started for stamp in known_names)
        after = f"{late[0][1]}, {late[0][0]:%Y-%m-%d %H:%M}" if late else ""
        if unknown := len(first) - len(known_names):
            after += f"{', ' if after else ''}{unknown} in no commit"
        yield f"| {example} | {started:%Y-%m-%d %H:%M} | {len(rows)} | {before} | {after or 'none'} |"


def main() -> int:
    """Print the table, or hold the page against it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    lines = list(table())
    if not parser.parse_args().check:
        print("\n".join(lines))  # noqa: T201 - its output
        return 0
    missing = [line for line in lines if line not in PAGE.read_text(encoding="utf-8").splitlines()]
    sys.stderr.write("".join(f"{PAGE} lacks: {line}\n" for line in missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
