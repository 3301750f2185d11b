"""Numbers of `gate` and of `compare --by run`, as printed, against the raw files of the runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from raw_run import RawStep, ratios, raw_steps
from sentence_runs import RUNS, volumes
from synthetic_run import OLTP, STEPS, Synthetic, build_run
from typer.testing import CliRunner

from sentences import NUMBER, SYMBOLS, plain, states, value_of
from volbench.cli.main import app
from volbench.errors import UsageError

METRICS = "tps|latency_ms_p95|latency_ms_p99|dump_s|restore_s|cold_read_mib_per_s|table_scan_s|first_query_ms"
POLICY = """schema: 2
name: p
conditions:
  - tps >= 500
  - latency_ms_p95 <= 17 ms
  - latency_ms_p99 <= 10 ms
  - valid cells >= 3
  - gp3 not worse than disk by > 10 %
"""
RETAINED = re.compile(
    r"(?P<volume>\w+) \((?P<step>[\w-]+)\): (?P<kept>\d+) of (?P<cells>\d+) valid cells keep it, "
    r"(?P<low>[\d,.]+)(?: to (?P<high>[\d,.]+))?(?:/s| ms), median (?P<median>[\d,.]+)(?:/s| ms)"
)
VALID = re.compile(r"(?P<volume>\w+) \((?P<steps>[\w, -]+)\): (?P<valid>\d+) of (?P<cells>\d+) cells are valid")
WORSE = re.compile(
    rf"(?P<volume>\w+) \((?P<step>[\w-]+)\): (?P<metric>{METRICS}): (?P<change>{SYMBOLS}) \[{SYMBOLS}, {SYMBOLS}\] "
    r"against (?P<baseline>\w+), (?P<n>\d+) and (?P<m>\d+) cells"
    r"(?:, (?P<disturbed>\d+) of them disturbed)?"
)
LIMITS = {"tps >= 500": ("tps", 500.0), "latency_ms_p95 <= 17 ms": ("latency_ms_p95", 17.0)}
LIMITS["latency_ms_p99 <= 10 ms"] = ("latency_ms_p99", 10.0)


def printed(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "400"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return plain(result.stdout)


def valid(steps: list[RawStep], volume: str, step: str, metric: str) -> list[float]:
    return sorted(
        item.metrics[metric] for item in steps if item.valid and (item.volume, item.step) == (volume, step)
    )


@pytest.mark.parametrize("name", ["two", "some-invalid", "some-disturbed", "all-invalid"])
def test_every_number_of_a_gate_is_that_of_the_cells(name: str, tmp_path: Path) -> None:
    run = build_run(tmp_path, RUNS[name])
    (tmp_path / "policy.yaml").write_text(POLICY)
    text = printed("gate", run.path, "--policy", tmp_path / "policy.yaml")
    assert text.count("A cell is one pass of the suite on one volume") == 1
    steps, remainder = raw_steps(run.path), text
    condition = ""
    for line in text.splitlines():
        condition = next((limit for limit in LIMITS if line.endswith(f"  {limit}")), condition)
        if match := RETAINED.search(line):
            metric, limit = LIMITS[condition]
            values = valid(steps, match["volume"], match["step"], metric)
            remaining = sum(value >= limit if metric == "tps" else value <= limit for value in values)
            assert (int(match["kept"]), int(match["cells"])) == (remaining, len(values))
            for stated, value in (("low", values[0]), ("high", values[-1]), ("median", values[len(values) // 2])):
                if len(values) % 2 or stated != "median":
                    assert value_of(match[stated]) == pytest.approx(value, rel=0.0006), line
        elif match := VALID.search(line):
            of_step = [s for s in steps if (s.volume, s.step) == (match["volume"], match["steps"].split(",")[0])]
            assert (int(match["valid"]), int(match["cells"])) == (sum(s.valid for s in of_step), len(of_step))
        elif match := WORSE.search(line):
            key = (match["baseline"], match["volume"], match["step"], match["metric"])
            assert any(states(match["change"], ratio) for ratio in ratios(steps, *key)), line
            assert int(match["disturbed"] or 0) in (0, sum(step.bounded for step in steps))
        else:
            continue
        remainder = remainder.replace(match[0], "")
    for input_value in (*POLICY.splitlines(), run.path.name, "confidence 0.95", "by > 10 %", "valid cells >= 3"):
        remainder = remainder.replace(input_value.removeprefix("  - "), "")
    remainder = re.sub(
        r"\d+ of \d+ conditions? (?:fails?|are open|is open)|about \d+ more valid cells[ \w]*|", "", remainder
    )
    remainder = re.sub(
        r"\d and \d valid cells, 3 are the fewest|no valid cell|0 of 0 valid cells keep it", "", remainder
    )
    assert not NUMBER.search(remainder), remainder


def test_a_gate_decides_as_the_report_of_the_same_run(tmp_path: Path) -> None:
    """`run` said worse with p 0.013, and `gate` undecided, on the same run and metric."""
    run = build_run(tmp_path, RUNS["some-disturbed"])
    (tmp_path / "policy.yaml").write_text(
        "schema: 2\nname: p\nconditions:\n  - gp3 not worse than disk by > 10 %\n"
    )
    printed("report", run.path)
    report = json.loads((run.path / "report.json").read_text())
    decided = json.loads(printed("gate", run.path, "--policy", tmp_path / "policy.yaml", "--json"))
    assert {row["verdict"] for row in report["comparisons"] if row["primary"]} == {"worse"}
    assert decided["decision"] == "no-go"
    for group in decided["conditions"][0]["groups"]:
        metric, change = re.match(rf"(\w+): ({SYMBOLS})", plain(group["text"])).groups()  # type: ignore[union-attr]
        (row,) = (row for row in report["comparisons"] if row["metric"] == metric)
        assert states(change, row["ratio"])


ROW = re.compile(
    rf"^(?P<step>[\w-]+) +(?P<metric>{METRICS}) +"
    r"(?P<before_run>\S+)/(?P<baseline>\w+) +(?P<run>\S+)/(?P<volume>\w+)"
    rf" +(?P<before>[\d,.]+) +(?P<now>[\d,.]+)(?:/s| ms| s| MiB/s) +(?P<change>{SYMBOLS}) "
    rf"\[{SYMBOLS}, {SYMBOLS}\] +"
    r"(?P<p>[\de.+-]+) +(?P<n>\d+) and (?P<m>\d+) +(?P<verdict>\w+)$",
    re.MULTILINE,
)


def test_every_row_of_compare_by_run_is_that_of_the_raw_files_of_two_runs(tmp_path: Path) -> None:
    """Every group was held against the first of the alphabet: a volume has its own past."""
    runs = [
        build_run(tmp_path, Synthetic(volumes=volumes(1, speed), steps=STEPS, seed=seed), run_id=f"run-{seed}")
        for seed, speed in ((1, 1.4), (2, 1.1))
    ]
    text = printed("compare", *(run.path for run in runs), "--by", "run")
    raw = {run.path.name: raw_steps(run.path) for run in runs}
    rows = list(ROW.finditer(text))
    assert len(rows) == len(text.splitlines()) - 1 == 16
    for row in rows:
        assert (row["before_run"], row["run"], row["baseline"]) == ("run-1", "run-2", row["volume"])
        sides = {run: valid(steps, row["volume"], row["step"], row["metric"]) for run, steps in raw.items()}
        before, now = (sorted(values) for values in sides.values())
        assert value_of(row["before"]) == pytest.approx(before[2], rel=0.0051)
        assert value_of(row["now"]) == pytest.approx(now[2], rel=0.0051)
        renamed = [
            RawStep(**{**vars(step), "volume": run, "block": at})
            for run, steps in raw.items()
            for at, step in enumerate(steps)
            if step.volume == row["volume"]
        ]
        known_names = ratios(renamed, "run-1", "run-2", row["step"], row["metric"])
        assert any(states(row["change"], ratio) for ratio in known_names), row[0]
        assert (int(row["n"]), int(row["m"])) == (len(before), len(now))
        better = row["metric"] in ("tps", "cold_read_mib_per_s")
        moved = known_names[0] > 1 if better else known_names[0] < 1
        assert row["verdict"] == "equivalent" or (row["verdict"] == "better") == moved


def test_an_unknown_metric_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    """`--metric nope` printed nothing and ended well."""
    run = build_run(tmp_path, Synthetic(volumes=volumes(1, 2), steps=(OLTP,), repeats=2))
    result = CliRunner().invoke(app, ["compare", str(run.path), str(run.path), "--by", "run", "--metric", "tsp"])
    assert isinstance(result.exception, UsageError)
    assert "'tsp'" in result.exception.what
    assert "'tps'" in result.exception.next_step
