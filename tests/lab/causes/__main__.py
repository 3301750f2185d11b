"""Causes made by the kernel and by other programs, and which of them explain names.

python -m causes run    runs what is not done yet; needs root, control groups of version 1, fio, nbdkit, rsync,
                        for the family network iptables and toxiproxy (or Go, which builds it once), for the
                        family fuse bindfs and gcc
python -m causes score  reads all runs that are done, with the rules as they are now, and writes data and a page
python -m causes families  writes scores by family of the runs below --out, as a page in Markdown
python -m causes calibrate  counts what findings came to, for the confidences that explain states
python -m causes list   the conditions
python -m causes clean  removes what a killed lab of this lane has left: mounts and loop devices of any --out,
                        groups, processes, servers and containers
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from stored_files import stored_text

from causes import families, first_sight
from causes.conditions import FILE, Condition, load_conditions, setup_of
from causes.leftovers import clean, only_lab
from causes.machine import Machine, missing_programs
from causes.observed import Run, emulated_runs, observe, read_runs, run_from
from causes.page import data_of, html
from causes.runner import DONE_FILE, run_setup
from causes.scoring import ONE_OF_TWO, calibrated, figures, first, is_named, is_right, left_out
from score_files import DATA_FILE, say, scored_on, write
from volbench.results.explain import calibration as calibration_module
from volbench.results.explain.calibration import Calibration

CALIBRATION_FILE = Path(calibration_module.__file__).with_name(calibration_module.FILE)
DEFAULT_OUT = Path("/var/tmp/volbench-injectors")
DEFAULT_TO = Path(__file__).parents[3] / "results" / "examples" / "lab" / "causes"
EMULATOR_OUT = Path("/var/tmp/volbench-lab")
CALIBRATION_SOURCE = (
    "results/examples/lab/causes/lab.json.xz, with and without the limits of the server's group: runs whose"
    " verdicts were known while rules were mended, checked on fresh ones; and seed-703.json.xz and seed-704.json.xz"
    " at first sight"
)
SPARED = {"": "", "cgroup_io": ", without the limits of the server's group"}
"""What rules are not shown in a second reading: most volumes and hypervisors do not tell their limits."""


FRESH, KNOWN, LOOKED_AT = "fresh runs", "runs whose verdicts were known", "runs looked at"
KNOWN_SEEDS = frozenset({1, 2, 5, 7, 8, 9, 28, 29, 71, 72, 73, 74, 77})
"""Seeds whose verdicts were known while rules were mended: confidences are counted on them, they prove nothing.

A page that has seeds 9, 28 and 29 among the fresh runs was scored before the rules that their verdicts led to. From
those rules on, no figure over these seeds is a score of unseen runs."""
LOOKED_AT_NUMBERS = frozenset({1})
"""Of these seeds, the runs whose series were looked at."""


def main() -> int:
    """Parses the command line; 2 for one that is wrong or a machine that lacks something."""
    parser = argparse.ArgumentParser(
        prog="causes", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("run", "score", "families", "calibrate", "list", "clean"))
    parser.add_argument("--conditions", default="", help="names or families, comma-separated; empty: all")
    parser.add_argument("--runs", type=int, default=5, help="of each condition")
    parser.add_argument("--seed", type=int, default=1, help="of all values that are drawn")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where runs are kept")
    parser.add_argument("--for", dest="for_s", type=float, default=None, help="begin no run after so many seconds")
    parser.add_argument("--emulator", type=Path, default=EMULATOR_OUT, help="runs of tests/lab/explain")
    parser.add_argument("--to", type=Path, default=DEFAULT_TO, help="where scores and page go")
    parser.add_argument("--load", default="not noted", help="load averages while the fresh runs were made")
    options = parser.parse_args()
    conditions = load_conditions()
    names = [name for name in options.conditions.split(",") if name]
    chosen = {
        name: outcome
        for name, outcome in conditions.items()
        if not names or name in names or outcome.family in names
    }
    if not chosen:
        sys.stderr.write(f"{FILE} has none of {', '.join(names)}; it has {', '.join(conditions)}\n")
        return 2
    if options.what == "list":
        for name, condition in chosen.items():
            say(
                f"{condition.family:11} {condition.shape:9} {name}: {condition.text} ({', '.join(condition.truth)})"
            )
    elif options.what == "clean":
        with only_lab():
            clean(options.out.absolute())
    elif options.what == "score":
        _score(conditions, options)
    elif options.what == "families":
        circumstances = f"Load averages while the runs were made: {options.load}."
        written = options.to / families.FILE
        written.write_text(families.page(read_runs(options.out.absolute()), circumstances), encoding="utf-8")
        say(str(written))
    elif options.what == "calibrate":
        _calibrate(options.to / DATA_FILE)
    else:
        lacking = missing_programs()
        if lacking:
            packages = " ".join(dict.fromkeys(lacking.values()))
            sys.stderr.write(f"this machine lacks {', '.join(lacking)}: apt-get install {packages}\n")
            return 2
        with only_lab():
            _run(chosen, options)
    return 0


def _run(conditions: dict[str, Condition], options: argparse.Namespace) -> None:
    root = options.out.absolute()
    root.mkdir(parents=True, exist_ok=True)
    machine, until_s = Machine(root), time.monotonic() + (options.for_s or float("inf"))
    left = 0
    # Run by run over all conditions, so that a machine that drifts, or a lab that is cut short, hits all alike.
    for number in range(1, options.runs + 1):
        for condition in conditions.values():
            setup = setup_of(condition, number=number, lab_seed=options.seed)
            directory = root / f"seed-{options.seed}" / setup.name
            if (directory / DONE_FILE).exists():
                continue
            if time.monotonic() > until_s:
                left += 1
                continue
            done = run_setup(setup, directory, machine)
            say(f"{done['wall_s']:4.0f} s  {_in_a_line(observe(directory))}")
    say(f"{left} runs are left" if left else "all runs are done")


def _score(conditions: dict[str, Condition], options: argparse.Namespace) -> None:
    readings: dict[str, list[Run]] = {}
    emulated = emulated_runs(options.emulator) if options.emulator.is_dir() else []
    for source, label in SPARED.items():
        runs = [*read_runs(options.out.absolute(), without=source), *emulated]
        for age in (FRESH, KNOWN, LOOKED_AT):
            readings[f"{age}{label}"] = [run for run in runs if _age(run) == age]
    counted_on = {label: readings[label.replace(FRESH, KNOWN)] for label in readings}
    for label, runs in readings.items():
        say(f"== {label}: {len(runs)} runs")
        for run in runs:
            if not run.injected or not is_right(run):
                say(f"  {_in_a_line(run)}  {run.place}")
        for bar in figures(runs, left_out(runs, counted_on[label])):
            verdict = {True: "pass", False: "FAIL", None: "not measured"}[bar.passed]
            value = "-" if bar.value is None else f"{bar.value:.3g}"
            requests = f"{'>=' if bar.at_least else '<='} {bar.limit}"
            say(f"  {verdict:12} {bar.name}: {value} ({requests}); {bar.meaning}")
    scored = {**scored_on(), "load": options.load, "known_seeds": sorted(KNOWN_SEEDS)}
    data = data_of(readings, conditions, counted_on=counted_on, machine=scored)
    data["calibration"] = calibration_of(data).model_dump(mode="json")
    for path in write(data, html(data), options.to):
        say(str(path))


def calibration_of(data: dict[str, Any]) -> Calibration:
    """Confidences from known runs of lab.json and later ones at first sight, checked on its fresh runs."""
    readings = {label: [run_from(row) for row in rows] for label, rows in data["runs"].items()}
    later = [run for file in first_sight.FILES for run in first_sight.runs_of(file) if run.injected]
    return calibrated(CALIBRATION_SOURCE, [*_proven(readings, KNOWN), *later], _proven(readings, FRESH))


def _age(run: Run) -> str:
    """What was known of a run while rules were mended."""
    if run.lab_seed not in KNOWN_SEEDS:
        return FRESH
    return LOOKED_AT if run.number in LOOKED_AT_NUMBERS and run.family != "emulator" else KNOWN


def _proven(readings: dict[str, list[Run]], age: str) -> list[Run]:
    """Runs of one age, of both readings, whose injection is proven."""
    return [run for label, runs in readings.items() if label.startswith(age) for run in runs if run.injected]


def _calibrate(scored: Path) -> None:
    calibration = calibration_of(json.loads(stored_text(scored)))
    CALIBRATION_FILE.write_text(calibration.model_dump_json(indent=1) + "\n", encoding="utf-8")
    for kind, counts in calibration.derived.kinds.items():
        say(f"{kind}: {counts.true} of {counts.findings}")
    say(str(CALIBRATION_FILE))


def _in_a_line(run: Run) -> str:
    if run.failure:
        return f"{run.name}: FAILED {run.failure}"
    if run.missing:
        return f"{run.name}: not injected: {'; '.join(run.missing)} (named {first(run)})"
    verdict = "right" if is_right(run) else "WRONG"
    verdict = verdict if is_named(run) else f"abstained ({ONE_OF_TWO if run.findings else 'nothing named'})"
    named = ", ".join(f"{finding.cause} {finding.confidence or 0:.2f}" for finding in run.findings[:4])
    cap = f" cap {run.measured['cap']:.4g}" if "cap" in run.measured else ""
    return f"{run.name}: {verdict}; made {', '.join(run.truth)}{cap}; named {named or '-'}"


if __name__ == "__main__":
    sys.exit(main())
