"""`make lab`: makes causes, runs volbench on them, scores what it names, and writes data and a page.

python -m explain run        runs what is not done yet
python -m explain twins      the same runs without their causes, beside --out: what a difference is divided against
python -m explain score      reads all runs that are done, with the rules as they are now
python -m explain recordings what the texts of sar and iostat alone show of one seed's runs
python -m explain list       the conditions
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explain.conditions import FILE, SPLITS, Condition, load_conditions, setup_of, twin_of
from explain.observed import Observed, read_places
from explain.page import data_of, html, runs_of, scores
from explain.rates import verdict_rates
from explain.recorded import recorded_outcomes, scores_of
from explain.runner import is_done, run_setup
from explain.scoring import calibration
from score_files import DATA_FILE, say, scored_on, write
from volbench.results.explain.calibration import Calibration

DEFAULT_OUT = Path("/var/tmp/volbench-lab")
DEFAULT_TO = Path(__file__).parents[3] / "results" / "examples" / "lab"
WHAT_IF = DEFAULT_TO.parent / "what-if" / "pairs.json"
"""Loads predicted for other volumes and run there; tests/benchmarks/what_if.py writes it."""
SPARED = {"emulator": "without the volume's own counters"}
"""Sources that rules are spared in a second reading of the same runs: most volumes do not count their limits."""
LOOKED_AT = frozenset({1, 2, 3, 5, 6, 7, 8})
"""Seeds of the test split whose runs were looked at while rules were still mended: they prove nothing."""
KINDS = {
    "test": "test split",
    "looked at": "test ranges, looked at while rules were mended",
    "development": "development split",
}


def main() -> int:
    """Parses the command line; 2 for one that is wrong."""
    parser = argparse.ArgumentParser(
        prog="explain", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("run", "twins", "score", "recordings", "list"))
    parser.add_argument("--conditions", default="", help="names, comma-separated; empty: all")
    parser.add_argument("--runs", type=int, default=5, help="of each condition")
    parser.add_argument("--seed", type=int, default=4, help="of all values that are drawn")
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where runs are kept")
    parser.add_argument("--for", dest="for_s", type=float, default=None, help="begin no run after so many seconds")
    parser.add_argument("--to", type=Path, default=DEFAULT_TO, help="where scores and page go")
    options = parser.parse_args()
    conditions = load_conditions()
    names = [name for name in options.conditions.split(",") if name] or list(conditions)
    unknown = sorted(set(names) - set(conditions))
    if unknown:
        sys.stderr.write(f"{FILE} has no {', '.join(unknown)}; it has {', '.join(conditions)}\n")
        return 2
    chosen = {name: conditions[name] for name in names}
    if options.what == "list":
        for name, condition in chosen.items():
            sys.stdout.write(f"{name}: {condition.text} ({', '.join(condition.truth)})\n")
    elif options.what in ("run", "twins"):
        _run(chosen, options)
    elif options.what == "recordings":
        _score_recordings(options)
    else:
        _score(conditions, options)
    return 0


def _run(conditions: Mapping[str, Condition], options: argparse.Namespace) -> None:
    out = options.out.absolute() if options.what == "run" else twins_of(options.out.absolute())
    root = out / options.split / f"seed-{options.seed}"
    disk = options.out.absolute() / "disk"
    disk.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + (float("inf") if options.for_s is None else options.for_s)
    left = 0
    # Run by run over all conditions, so that a machine that drifts, or a lab that is cut short, hits all alike.
    for number in range(1, options.runs + 1):
        for condition in conditions.values():
            setup = setup_of(condition, split=options.split, number=number, lab_seed=options.seed)
            directory = root / setup.name
            chosen = twin_of(setup, condition) if options.what == "twins" else setup
            if chosen is None or is_done(directory):
                continue
            if time.monotonic() > until_s:
                left += 1
                continue
            begun_s = time.monotonic()
            ran = run_setup(chosen, directory, disk=disk)
            say(f"{chosen.name}: {time.monotonic() - begun_s:.0f} s {ran.failure}")
    say(f"{left} runs are left" if left else "all runs are done")


def twins_of(out: Path) -> Path:
    """Where the runs without their causes are, for the runs in `out`: not among them, as they are not scored."""
    return out.with_name(f"{out.name}-twins")


def _score(conditions: Mapping[str, Condition], options: argparse.Namespace) -> None:
    runs: dict[str, list[Observed]] = {}
    for without in ("", *SPARED):
        result = read_places(options.out.absolute(), without=without)
        for remaining in KINDS:
            label = label_of(remaining, without)
            runs[label] = [run for run in result if _kind(run) == remaining]
            _say_scores(label, scores(runs[label]), runs[label])
    what_if = json.loads(WHAT_IF.read_text(encoding="utf-8"))
    data = data_of(runs, conditions, machine=scored_on(), rates=verdict_rates(), what_if=what_if)
    data["calibration"] = calibration_of(data).model_dump(mode="json")
    _say_bar(data["what_if"]["bar"])
    for path in write(data, html(data), options.to):
        say(str(path))


def _score_recordings(options: argparse.Namespace) -> None:
    scored = scores_of(recorded_outcomes(options.out.absolute() / options.split / f"seed-{options.seed}"))
    path = options.to / f"recordings-seed-{options.seed}.json"
    path.write_text(json.dumps(scored, indent=1) + "\n", encoding="utf-8")
    say(json.dumps({name: value for name, value in scored.items() if name != "rows"}, indent=1))
    say(str(path))


def label_of(remaining: str, without: str = "") -> str:
    """What a group of runs is called in lab.json and on the page."""
    return KINDS[remaining] + (f", {SPARED[without]}" if without else "")


def calibration_of(data: Mapping[str, Any]) -> Calibration:
    """What lab.json says of confidences. Of readings without the volume's own counters: most volumes have none."""
    derived, checked = (
        [run for remaining in of for run in runs_of(data, label_of(remaining, "emulator"))]
        for of in (("development", "looked at"), ("test",))
    )
    return calibration(f"results/examples/lab/{DATA_FILE}, {SPARED['emulator']}", derived, checked)


def _kind(run: Observed) -> str:
    return "looked at" if run.split == "test" and run.lab_seed in LOOKED_AT else run.split


def _say_scores(label: str, scored: Mapping[str, Any], runs: list[Observed]) -> None:
    say(f"== {label}: {len(runs)} runs")
    if not runs:
        return
    for run in runs:
        if run.top not in run.truth:
            say(f"  {run.condition}/{run.number}: {', '.join(run.truth)}, and named {run.causes or run.top}")
    for bar in scored["bars"]:
        _say_bar(bar)


def _say_bar(bar: Mapping[str, Any]) -> None:
    verdict = {True: "pass", False: "FAIL", None: "not measured"}[bar["passed"]]
    value = "-" if bar["value"] is None else f"{bar['value']:.3g} {bar['unit']}"
    requests = f"{'>=' if bar['at_least'] else '<='} {bar['limit']}"
    say(f"  {bar['name']}: {value} ({requests}) {verdict}; {bar['meaning']}")


if __name__ == "__main__":
    sys.exit(main())
