"""Real runs with known truths on a machine that other work uses, one line of JSON a run; then a table of them.

    PYTHONPATH=tests/lab .venv/bin/python -m verdicts run --out DIRECTORY [--rounds 10] [--for SECONDS]
    PYTHONPATH=tests/lab .venv/bin/python -m verdicts table --out DIRECTORY

A round is a demo with two busy loops that come and go, one with four, two runs of a directory against another one
of the same disk beside such loops, two with short cells, and two of `compare` on emulated volumes whose limits
differ by 20 %. A run that has its line is not repeated, so an interrupted call continues where it was. Needs root,
FUSE and a local server.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verdicts.loops import Loops
from verdicts.truth import measured_ratio

ROOT = Path(__file__).resolve().parents[3]
PROFILE = Path(__file__).with_name("verdict-pair.yaml")
FULL_IOPS, SLOW_IOPS = 1000, 800
RUN_S_MAX = 1500
LINES = "runs.jsonl"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of run: its suite, its volumes, what beside it uses the CPUs, and the verdicts that are right."""

    text: str
    suite: str
    volumes: tuple[str, str]
    right: tuple[str, ...]
    loops: int = 0
    limit_s: float | None = None
    settings: tuple[str, ...] = ()


EMULATED = f"emulated:{PROFILE}?dir={{work}}/emulated&iops="
UNNAMED = ("equivalent", "inconclusive")
DISKS = ("a=path:{work}/a", "b=path:{work}/b")
DEMO = ("disk=path:{work}/disk", "gp3=emulated:ebs-gp3?dir={work}/emulated")
KINDS = {
    "demo-2": Kind(text="demo", suite="quick", volumes=DEMO, loops=2, right=("candidate_worse",)),
    "equal-2": Kind(text="a disk against itself", suite="quick", volumes=DISKS, loops=2, right=UNNAMED),
    "demo-4": Kind(text="demo", suite="quick", volumes=DEMO, loops=4, right=("candidate_worse",)),
    "compare-1": Kind(
        text="20 % slower",
        suite="compare",
        volumes=(f"full={EMULATED}{FULL_IOPS}", f"slow={EMULATED}{SLOW_IOPS}"),
        right=("candidate_worse",),
        limit_s=120,
    ),
    "equal-4": Kind(text="a disk against itself", suite="quick", volumes=DISKS, loops=4, right=UNNAMED),
    **{
        f"short-{loops}": Kind(
            text="a disk against itself, short cells, none repeated",
            suite="quick",
            volumes=DISKS,
            loops=loops,
            right=UNNAMED,
            settings=("steps.read-write.warmup=1s", "steps.read-write.duration=4s", "replacements=0"),
        )
        for loops in (0, 2)
    },
}
ROUND = (*KINDS, "compare-1")


def main() -> int:
    """Run what is missing, or write the table of what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--out", type=Path, required=True, help="directory of the runs and of " + LINES)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/volbench-verdicts"), help="of the disks' data")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument(
        "--for", dest="for_s", type=float, default=float("inf"), help="begin no run after so many s"
    )
    args = parser.parse_args()
    if args.what == "run":
        run_missing(args)
    print("\n".join(table(read_lines(args.out))))
    return 0


def run_missing(args: argparse.Namespace) -> None:
    """Run round after round what has no line yet."""
    end_s = time.monotonic() + args.for_s
    args.out.mkdir(parents=True, exist_ok=True)
    for name in ("a", "b", "disk"):
        (args.work / name).mkdir(parents=True, exist_ok=True)
    done = {(line["kind"], line["number"]) for line in read_lines(args.out)}
    for number, kind in planned(args.rounds):
        if kind not in args.kinds or (kind, number) in done:
            continue
        if time.monotonic() >= end_s:
            return
        line = run_one(kind, number, args)
        with (args.out / LINES).open("a") as lines:
            lines.write(json.dumps(line) + "\n")
        print(json.dumps({key: line[key] for key in ("kind", "number", "verdict", "right", "wall_s")}), flush=True)


def planned(rounds: int) -> Iterator[tuple[int, str]]:
    """Yield number and kind of every run; a kind that a round has twice is numbered through."""
    counts = dict.fromkeys(KINDS, 0)
    for _ in range(rounds):
        for kind in ROUND:
            counts[kind] += 1
            yield counts[kind], kind


def run_one(name: str, number: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the line of one run: verdict, times, and what else used the machine."""
    kind = KINDS[name]
    out = args.out / f"{name}-{number:02}"
    command = [
        sys.executable,
        "-m",
        "volbench",
        "run",
        str(ROOT / f"suites/{kind.suite}.yaml"),
        "--target",
        "local",
    ]
    for volume in kind.volumes:
        command += ["--volume", volume.format(work=args.work)]
    for setting in (*kind.settings, f"seed={number}"):
        command += ["--set", setting]
    command += ["--out", str(out), "--yes"]
    line: dict[str, Any] = {
        "kind": name,
        "number": number,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if name.startswith("compare"):
        try:
            line["fio_ratio"] = measured_ratio(PROFILE, (FULL_IOPS, SLOW_IOPS), args.work / "emulated")
        except subprocess.SubprocessError as error:
            line["fio_ratio"], line["fio_error"] = None, str(error)
    line["loadavg_before"] = os.getloadavg()[0]
    begun_s = time.monotonic()
    with Loops(kind.loops, number), (args.out / f"{out.name}.log").open("w") as log:
        try:
            line["exit"] = subprocess.run(
                command, stdout=log, stderr=log, check=False, timeout=RUN_S_MAX
            ).returncode
        except subprocess.TimeoutExpired:
            line["exit"] = None
    line |= {"wall_s": round(time.monotonic() - begun_s, 1), "loadavg_after": os.getloadavg()[0]}
    return line | outcome(kind, out)


def outcome(kind: Kind, out: Path) -> dict[str, Any]:
    """Return what the report says, and whether that is right; an absent report is not."""
    reports = sorted(out.glob("*/report.json"))
    if not reports:
        return {"verdict": None, "right": False}
    report = json.loads(reports[-1].read_text())
    verdict = report["summary"]["verdict"]
    foreign = [
        disturbance["size"]
        for cell in report["cells"]
        for disturbance in cell["disturbances"]
        if disturbance["kind"] == "foreign_cpu"
    ]
    return {
        "verdict": verdict,
        "right": verdict in kind.right,
        "cells": len({cell["cell_id"] for cell in report["cells"]}),
        "valid": sum(cell["valid"] for cell in report["cells"]),
        "steps": len(report["cells"]),
        "foreign_cpu_median": round(statistics.median(foreign), 3) if foreign else None,
        "foreign_cpu_max": round(max(foreign), 3) if foreign else None,
        "ratios": {
            f"{row['step']} {row['metric']}": [round(row["ratio"], 3), row["verdict"]]
            for row in report["comparisons"]
            if row["primary"] and row["ratio"] is not None
        },
        "headline": report["summary"]["headline"],
    }


def read_lines(out: Path) -> list[dict[str, Any]]:
    """Return the lines of all runs so far."""
    path = out / LINES
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each kind, then one for each run."""
    yield "| runs | suite | busy loops | right | open | seconds, median (longest) | load average | CPU of others |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for name, kind in KINDS.items():
        of_kind = [line for line in lines if line["kind"] == name]
        if of_kind:
            yield row(kind, of_kind)
    yield ""
    yield "| run | verdict | right | cells (valid) | seconds | load | CPU of others, median (most) | ratios |"
    yield "|---|---|---|--:|--:|--:|--:|---|"
    for line in lines:
        ratios = ", ".join(
            f"{metric} {ratio:g} ({verdict})" for metric, (ratio, verdict) in line.get("ratios", {}).items()
        )
        yield (
            f"| {line['kind']} {line['number']} | {line['verdict']} | {'yes' if line['right'] else '**no**'}"
            f" | {line.get('cells')} ({line.get('valid')} of {line.get('steps')} steps) | {line['wall_s']:.0f}"
            f" | {line['loadavg_before']:.0f}, {line['loadavg_after']:.0f}"
            f" | {shares(line.get('foreign_cpu_median'), line.get('foreign_cpu_max'))} | {ratios} |"
        )


def row(kind: Kind, lines: list[dict[str, Any]]) -> str:
    """Return the row of one kind."""
    walls = [line["wall_s"] for line in lines]
    loads = [line[key] for line in lines for key in ("loadavg_before", "loadavg_after")]
    shared = [line["foreign_cpu_median"] for line in lines if line.get("foreign_cpu_median") is not None]
    in_time = ""
    if kind.limit_s is not None:
        in_time = f"; {sum(wall <= kind.limit_s for wall in walls)} of {len(walls)} within {kind.limit_s:g}"
    return (
        f"| {kind.text} | {kind.suite} | {kind.loops} | {sum(line['right'] for line in lines)} of {len(lines)}"
        f" | {sum(line['verdict'] == 'inconclusive' for line in lines)}"
        f" | {statistics.median(walls):.0f} ({max(walls):.0f}){in_time} | {min(loads):.0f} to {max(loads):.0f}"
        f" | {shares(min(shared, default=None), max(shared, default=None))} |"
    )


def shares(low: float | None, high: float | None) -> str:
    """Return two shares in percent."""
    return "not known" if low is None or high is None else f"{low:.0%} ({high:.0%})"


if __name__ == "__main__":
    sys.exit(main())
