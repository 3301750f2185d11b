"""Decide by `recommend` for loads that nobody measured, then run what was decided: a line of JSON a decision.

    PYTHONPATH=tests/lab .venv/bin/python -m decisions --out DIRECTORY [--target docker] [--decisions 60]

A seed draws a load, an emulated volume that it is measured on, volumes on offer and objectives. Each decision is
written to `decisions.jsonl` before any of its volumes is made: the recommended volume, and the likeliest cheaper
one. Then the load runs on both, and on the first volume again, which tells what the machine did meanwhile. A
decision is right if the recommended volume keeps p95 within the objective; one that calls its volume the cheapest
also says that the cheaper one breaks it. What is in the files is not run again, so an interrupted call continues
where it was. Needs root, FUSE, and an engine or a local server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import volbench
from decisions.draw import OBJECTIVES, Draw, draw
from decisions.outcomes import DISTURBED, table
from response.forecasts import append, complete_run, lines_of, now
from volbench.core.records.report import CellRow
from volbench.errors import Undecided
from volbench.results.recommend.choice import Assessed, recommend
from volbench.results.recommend.goal import Goal
from volbench.results.recommend.run_evidence import evidence_of_run
from volbench.results.report.recommendation import answer_word
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

SUITE = Path(__file__).with_name("suite.yaml")
DECISIONS, OUTCOMES = "decisions.jsonl", "outcomes.jsonl"
CONTROL = "control"
STEP = "load"
P95 = "latency_ms_p95"
RUN_S_MAX = 3600


def main() -> int:
    """Decide and measure what is missing, then write the table of what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory of the runs and of the lines")
    parser.add_argument("--decisions", type=int, default=60, help=f"{OBJECTIVES} a load")
    parser.add_argument("--first", type=int, default=1, help="number of the first load, which draws all else")
    parser.add_argument(
        "--for", dest="for_s", type=float, default=float("inf"), help="begin no run after so many s"
    )
    parser.add_argument("--target", default="local", help="local or docker")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], help="of all runs, such as limits.foreign_cpu=100%%"
    )
    parser.add_argument("--table", type=Path, help="Markdown file to write")
    parser.add_argument("--score-only", action="store_true", help="run nothing, write the table of what is there")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.score_only:
        end_s = time.monotonic() + args.for_s
        for number in range(args.first, args.first - (-args.decisions // OBJECTIVES)):
            drawn = draw(number)
            settings = (*drawn.settings, *args.settings)
            decide_and_measure(replace(drawn, settings=settings), args, end_s)
    text = "\n".join(table(lines_of(args.out / DECISIONS), lines_of(args.out / OUTCOMES))) + "\n"
    if args.table:
        args.table.write_text(text)
    sys.stdout.write(text)
    return 0


def decide_and_measure(drawn: Draw, args: argparse.Namespace, end_s: float) -> None:
    """Take one load from its source to the outcomes of its decisions, as far as files and time ask for it."""
    if any(line["number"] == drawn.number for line in lines_of(args.out / OUTCOMES)):
        return
    source = run_once(args.out / f"source-{drawn.number}", drawn, {CONTROL: drawn.source}, args, end_s)
    if source is None:
        return
    decisions = [line for line in lines_of(args.out / DECISIONS) if line["number"] == drawn.number]
    if not decisions:
        decisions = list(decided(drawn, source))
        append(args.out / DECISIONS, decisions)
    volumes = volumes_of(decisions)
    if not volumes:
        append(args.out / OUTCOMES, [{"number": drawn.number, "measured": {}, "loadavg": None}])
        return
    measured = run_once(args.out / f"goal-{drawn.number}", drawn, {CONTROL: drawn.source, **volumes}, args, end_s)
    if measured is not None:
        append(args.out / OUTCOMES, [outcome(drawn.number, decisions, measured)])


def run_once(
    out: Path, drawn: Draw, volumes: dict[str, str], args: argparse.Namespace, end_s: float
) -> Path | None:
    """Return the complete run of a load on volumes, which is made where there is none; None without one."""
    complete = complete_run(out)
    if complete is not None or time.monotonic() >= end_s:
        return complete
    interrupted = next((path.parent for path in sorted(out.glob("*/run.json"))), None)
    command = ["resume", str(interrupted)] if interrupted else run_command(out, drawn, volumes, args.target)
    out.mkdir(parents=True, exist_ok=True)
    (out / "load.json").write_text(json.dumps({"loadavg": os.getloadavg()[0], "begun_at": now()}))
    with (out / "log").open("a") as log:
        try:
            arguments = [sys.executable, "-m", "volbench", *command]
            subprocess.run(arguments, stdout=log, stderr=log, check=False, timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            return None
    return complete_run(out)


def run_command(out: Path, drawn: Draw, volumes: dict[str, str], target: str) -> list[str]:
    """Return the arguments of the run of a load on volumes."""
    command = ["run", str(SUITE), "--target", target, "--yes", "--out", str(out)]
    command += [argument for setting in drawn.settings for argument in ("--set", setting)]
    return command + [
        argument for name, spec in volumes.items() for argument in ("--volume", f"{name}=emulated:{spec}")
    ]


def decided(drawn: Draw, source: Path) -> Iterator[dict[str, Any]]:
    """Yield a decision for each objective, by what the source's run tells."""
    context = {
        "number": drawn.number,
        "settings": list(drawn.settings),
        "source": drawn.source,
        "offered": [volume.spec for volume in drawn.offered],
    }
    cells = volbench.open(source).report.cells
    p95_ms = p95_of(cells, CONTROL)
    if p95_ms is None or not is_valid(cells, CONTROL):
        yield {**context, "at": now(), "source_p95_ms": p95_ms, "answer": DISTURBED}
        return
    try:
        evidence = evidence_of_run(load_run(RunDirectory.open(source)))
    except Undecided as error:
        yield {**context, "at": now(), "source_p95_ms": p95_ms, "answer": "refused", "reason": str(error)}
        return
    for times in drawn.times:
        objective_ms = times * p95_ms
        base = {**context, "at": now(), "source_p95_ms": p95_ms, "objective_ms": objective_ms}
        try:
            answer = recommend(evidence, drawn.offered, Goal(p95_s=objective_ms / 1000))
        except Undecided as error:
            yield base | {"answer": "refused", "reason": str(error)}
            continue
        yield {
            **base,
            "answer": answer_word(answer),
            "reason": answer.refusal,
            "chosen": assessed(answer.chosen),
            "cheaper": assessed(answer.cheaper) if answer.chosen is not None else None,
            "refuted": [each.candidate.spec for each in answer.refuted],
        }


def assessed(option: Assessed | None) -> dict[str, Any] | None:
    """Return a volume of a decision with its chance and what it rests on."""
    if option is None:
        return None
    return {
        "volume": option.candidate.spec,
        "month": option.candidate.cost.month,
        "keeps": option.keeps,
        "interval_ms": next((chance.interval for chance in option.chances), None),
        "checks": [check.keeps for check in option.checks],
    }


def volumes_of(decisions: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return what has to be measured for decisions, each volume once: name and SPEC."""
    specs = [row["volume"] for line in decisions for row in (line.get("chosen"), line.get("cheaper")) if row]
    return {name_of(spec): spec for spec in sorted(set(specs))}


def name_of(spec: str) -> str:
    """Return a volume's name in a run, such as io2-400."""
    return f"io2-{spec.rpartition('iops=')[2]}"


def outcome(number: int, decisions: Sequence[dict[str, Any]], measured: Path) -> dict[str, Any]:
    """Return what the volumes of a load's decisions did. Raise ValueError where the run began before a decision."""
    report = volbench.open(measured).report
    for line in decisions:
        if str(report.started_at) <= line["at"]:
            raise ValueError(f"{measured} began before its decision of {line['at']}")
    figures = {
        spec: {"p95_ms": p95_of(report.cells, name), "valid": is_valid(report.cells, name)}
        for name, spec in {**volumes_of(decisions), CONTROL: CONTROL}.items()
    }
    load = json.loads((measured.parent / "load.json").read_text())["loadavg"]
    return {"number": number, "started_at": str(report.started_at), "loadavg": load, "measured": figures}


def p95_of(cells: Sequence[CellRow], volume: str) -> float | None:
    """Return p95 of a volume's cell in ms: of a valid one where there is one, else of the last; None without."""
    rows = [cell for cell in cells if (cell.volume, cell.step) == (volume, STEP) and P95 in cell.metrics]
    row = next((cell for cell in rows if cell.valid), rows[-1] if rows else None)
    return None if row is None else row.metrics[P95].value


def is_valid(cells: Sequence[CellRow], volume: str) -> bool:
    """Return whether a volume has a valid cell."""
    return any(cell.valid for cell in cells if (cell.volume, cell.step) == (volume, STEP))


if __name__ == "__main__":
    sys.exit(main())
