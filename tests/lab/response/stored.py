"""What is kept of forecasts and their sources, so that they can be counted and made again without the runs.

PYTHONPATH=tests/lab:tests/support .venv/bin/python -m response.stored DIRECTORY FILE   writes FILE (.json.xz)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stored_files import store_text, stored_text

import volbench
from response.forecasts import LOADS, PAIRS, complete_run, lines_of, outlook, views_of
from response.pairs_table import NEAR, is_control, score
from volbench.core.records.report import ResponseRow

STORED = Path(__file__).parents[2] / "fixtures" / "forecasts-21.json.xz"
"""Sources 21 to 25, whose runs are not kept."""
Pair = Mapping[str, Any]


def keep(directory: Path, file: Path) -> None:
    """Write pairs, and of each source the rows of slopes by load with its threads."""
    pairs = lines_of(directory / PAIRS)
    sources = {}
    for name in sorted({pair["goal"].partition("-")[0] for pair in pairs}):
        run = complete_run(directory / f"source-{name}")
        if run is None:
            raise ValueError(f"source {name} has no complete run")
        report, views = volbench.open(run).report, views_of(run)
        sources[name] = {
            load: {
                "threads": waits.threads,
                "rows": [row.model_dump(mode="json") for row in report.responses if row.step == load],
            }
            for load in LOADS
            if load in views and (waits := views[load].waits) is not None
        }
    store_text(file, json.dumps({"pairs": pairs, "sources": sources}, indent=1) + "\n")


def stored(file: Path = STORED) -> tuple[list[Pair], Mapping[str, Any]]:
    """Return pairs and sources."""
    data = json.loads(stored_text(file))
    return data["pairs"], data["sources"]


def again(pairs: Sequence[Pair], sources: Mapping[str, Any], *, measured_awaits: bool = False) -> Iterator[Pair]:
    """Yield pairs that are no controls, forecast by today's rules from the same slopes.

    Args:
        pairs, sources: as `stored` gives them.
        measured_awaits: from the waiting times that were measured on the goal, instead of those forecast for it.
    """
    for pair in pairs:
        if is_control(pair):
            continue
        source = sources[pair["goal"].partition("-")[0]][pair["load"]]
        rows = [ResponseRow.model_validate(row) for row in source["rows"]]
        expected = pair["forecast"]["awaits_ms"]
        measured = pair["measured"]["awaits_ms"]
        awaits_ms = {term: measured[term] if measured_awaits else value for term, value in expected.items()}
        made = outlook(rows, awaits_ms, source["threads"])
        yield {**pair, "forecast": {**pair["forecast"], **made}}


def near(pairs: Sequence[Pair], figure: str = "tps") -> tuple[int, int]:
    """Return how many forecasts are within NEAR, and how many there are."""
    scores = [figure_score for pair in pairs if (figure_score := score(pair, figure)) is not None]
    return sum(abs(figure_score.error) <= NEAR for figure_score in scores), len(scores)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
