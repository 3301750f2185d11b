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
from response.forecasts import LOADS, PAIRS, Latencies, complete_run, lines_of, outlook, views_of
from response.pairs_table import NEAR, is_control, score
from volbench.core.records.report import ResponseRow
from volbench.results.explain.accounts.what_if import OtherVolume, other_volume
from volbench.results.explain.accounts.what_if_response import awaits_on
from volbench.results.response.estimate import with_one_log
from volbench.results.response.levels import mean_awaits_ms
from volbench.results.response.samples import CellSamples

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
                "base_awaits_ms": _base_awaits_ms(waits, report.responses, load),
                "rows": [row.model_dump(mode="json") for row in report.responses if row.step == load],
            }
            for load in LOADS
            if load in views and (waits := views[load].waits) is not None
        }
    store_text(file, json.dumps({"pairs": pairs, "sources": sources}, indent=1) + "\n")


def _base_awaits_ms(waits: CellSamples, rows: Sequence[ResponseRow], load: str) -> dict[str, float]:
    """Return by term with a slope the mean await while no signal kept the volume slow."""
    terms = {row.term for row in rows if (row.step, row.statistic, row.query) == (load, "mean", "") and row.ci}
    return mean_awaits_ms([with_one_log(waits)], sorted(terms), is_base=True)


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


def by_rule_of_what_if(pairs: Sequence[Pair], sources: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield all pairs, forecast by today's slopes and the waiting times that `explain --what-if` has."""
    for pair in pairs:
        here, there = _volumes(pair)
        source = sources[pair["goal"].partition("-")[0]][pair["load"]]
        yield _made(pair, source, awaits_on(there, source["base_awaits_ms"], here))


def by_specs_alone(pairs: Sequence[Pair], sources: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield all pairs, forecast as `explain --what-if` once did: a sync takes one write and one flush."""
    for pair in pairs:
        _, there = _volumes(pair)
        source = sources[pair["goal"].partition("-")[0]][pair["load"]]
        times_s = {term: there.read_s if term == "read" else there.write_s for term in source["base_awaits_ms"]}
        yield _made(pair, source, {term: 1000 * time_s for term, time_s in times_s.items()})


def _volumes(pair: Pair) -> tuple[OtherVolume, OtherVolume]:
    names = ("source_us", "goal_us")
    here, there = (other_volume(Latencies(**pair["forecast"][name]).spec) for name in names)
    return here, there


def _made(pair: Pair, source: Mapping[str, Any], awaits_ms: Mapping[str, float]) -> Pair:
    rows = [ResponseRow.model_validate(row) for row in source["rows"]]
    made = outlook(rows, awaits_ms, source["threads"])
    slopes = {
        row.term: [row.slope, row.ci, row.counted, row.agreement]
        for row in rows
        if row.statistic == "mean" and not row.query and row.term in awaits_ms
    }
    return {**pair, "forecast": {**pair["forecast"], "slopes": slopes, "awaits_ms": dict(awaits_ms), **made}}


def near(pairs: Sequence[Pair], figure: str = "tps") -> tuple[int, int]:
    """Return how many forecasts are within NEAR, and how many there are."""
    scores = [figure_score for pair in pairs if (figure_score := score(pair, figure)) is not None]
    return sum(abs(figure_score.error) <= NEAR for figure_score in scores), len(scores)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
