"""Runs of another version or of a plug-in: what this version does not know is shown or refused, without a crash."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import ROOT, volbench
from explained_once import explain_once
from packed_rows import unpacked
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench import __version__
from volbench.api import open_run
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import RunUnreadable, UsageError
from volbench.results.store.run_directory import SERIES_FILE

Json = dict[str, Any]
UNKNOWN = "wormhole"
STEPS = (
    OltpStep(name="load", threads=(8,), warmup_s=1, duration_s=70),
    ColdReadStep(name="cold"),
    DumpStep(name="dump"),
)
RUNS = {
    "two": Synthetic(
        volumes=(SyntheticVolume(name="a", stall_s=(40.0, 45.0)), SyntheticVolume(name="b", speed=2)),
        repeats=3,
        steps=STEPS,
    ),
    "three": Synthetic(
        volumes=tuple(
            SyntheticVolume(name=name, speed=speed) for name, speed in zip("abc", (1, 2, 3), strict=True)
        ),
        repeats=2,
        steps=STEPS,
        invalid={("a", 1): "the client was CPU-bound"},
    ),
}


def _edit(path: Path, change: Callable[[Json], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _in_steps(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def alter(run: Path) -> None:
        for path in run.glob("cells/*/result.json"):
            _edit(path, lambda result: [change(step) for step in result["steps"]])

    return alter


def _in_results(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def alter(run: Path) -> None:
        for path in run.glob("cells/*/result.json"):
            _edit(path, change)

    return alter


def _in_run(change: Callable[[Json], object]) -> Callable[[Path], None]:
    return lambda run: _edit(run / "run.json", change)


def _in_report(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def everywhere(value: Any) -> None:
        if isinstance(value, dict):
            change(value)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            everywhere(item)

    return lambda run: _edit(run / "report.json", everywhere)


def _in_series(column: str) -> Callable[[Path], None]:
    """Rename every series but the clients', and let each move with p95, so that every one of them is shown."""

    def alter(run: Path) -> None:
        for path in run.glob(f"cells/*/{SERIES_FILE}"):
            rows = pq.read_table(path)
            random = np.random.default_rng(5)
            shape = dict(zip(sorted(set(rows["t_s"].to_pylist())), random.lognormal(1, 0.6, 1000), strict=False))
            changed = []
            for row in rows.to_pylist():
                if row["source"] != "client":
                    row[column] = f"{UNKNOWN}_{row[column]}"
                if row["metric"] != "tps":
                    row["value"] = shape[row["t_s"]]
                changed.append(row)
            pq.write_table(pa.Table.from_pylist(changed, rows.schema), path)

    return alter


def _all(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    def alter(run: Path) -> None:
        for change in changes:
            change(run)

    return alter


def _rename(step: Json) -> None:
    step["metrics"] = {f"{UNKNOWN}_{name}": value for name, value in step["metrics"].items()}


def _add(step: Json) -> None:
    step["metrics"] |= {UNKNOWN: {"value": 12.0 + step["window_s"][1], "unit": "parsec", "better": "higher"}}


def _remove(name: str) -> Callable[[Json], object]:
    return lambda step: step["metrics"].pop(name, None)


def _suffixed(key: str) -> Callable[[Json], object]:
    return lambda row: row.update({key: f"{row[key]}.{UNKNOWN}"}) if isinstance(row.get(key), str) else None


DISPLAYED = {
    "a metric more": _in_steps(_add),
    "no metric known": _in_steps(_rename),
    "no metric": _in_steps(lambda step: step.update(metrics={})),
    "no tps": _in_steps(_remove("tps")),
    "no p95": _in_steps(_remove("latency_ms_p95")),
    "a metric to compare": _all(
        _in_steps(_add), _in_run(lambda run: run["suite"]["comparison"].update(metrics=[UNKNOWN, "tps"]))
    ),
    "a metric to compare that no cell has": _in_run(
        lambda run: run["suite"]["comparison"].update(metrics=[UNKNOWN])
    ),
    "a kind of step": _in_steps(lambda step: step.update(kind=UNKNOWN)),
    "a kind of step with a metric": _all(
        _in_steps(lambda step: step.update(kind=UNKNOWN)),
        _in_steps(_add),
        _in_run(lambda run: run["suite"]["comparison"].update(metrics=[UNKNOWN])),
    ),
    "a source": _in_series("source"),
    "metrics of a source": _in_series("metric"),
    "a source in the list": _in_results(
        lambda result: result["sources"].append({"source": UNKNOWN, "available": True, "ticks_due": 3})
    ),
    "parameters": _in_steps(lambda step: step.update(parameters={UNKNOWN: UNKNOWN})),
    "no parameters": _in_steps(lambda step: step.update(parameters={})),
    "details and notes": _in_steps(lambda step: step.update(details={UNKNOWN: {"a": [1]}}, notes=[UNKNOWN])),
    "phases": _in_results(lambda result: result["phases"].append({"name": UNKNOWN, "t0_s": 1, "t1_s": 2})),
    "no phases": _in_results(lambda result: result.update(phases=[])),
    "no server": _in_results(lambda result: result.update(server=None)),
    "a failure's cause": _in_results(
        lambda result: result.update(status="failed", failure={"cause": UNKNOWN, "message": UNKNOWN})
    ),
    "a cause in the report": _in_report(_suffixed("cause")),
    "a metric in the report": _in_report(_suffixed("metric")),
    "a kind in the report": _in_report(_suffixed("kind")),
    "a verdict in the report": _in_report(_suffixed("verdict")),
    "a direction in the report": _in_report(_suffixed("better")),
    "a standing in the report": _in_report(_suffixed("standing")),
    "a caveat in the report": _in_report(
        lambda row: row["caveats"].append(UNKNOWN) if isinstance(row.get("caveats"), list) else None
    ),
    "a key in the report": _in_report(lambda row: row.update({UNKNOWN: [UNKNOWN]})),
}
"""What the files of a run may have that this version does not know, and what each command then shows."""
REFUSED = {
    "a key of the result": _in_results(lambda result: result.update({UNKNOWN: 1})),
    "a key of the run": _in_run(lambda run: run.update({UNKNOWN: 1})),
    "a direction of a metric": _in_steps(
        lambda step: step["metrics"].update({"tps": {"value": 1.0, "unit": "1/s", "better": UNKNOWN}})
    ),
    "a kind of a disturbance": _in_steps(
        lambda step: step.update(
            disturbances=[
                {"kind": UNKNOWN, "size": 1.0, "limit": 0.1, "delayed_share_max": 0.5, "text": "of a plug-in"}
            ]
        )
    ),
    "a kind of a step of the suite": _in_run(lambda run: run["suite"]["steps"][0].update(kind=UNKNOWN)),
    "an event": lambda run: _append_event(run, {"event": UNKNOWN}),
    "a key of an event": lambda run: _append_event(run, {"event": "run_finished", UNKNOWN: 1}),
}
"""What would change what a run is: it is refused, with the version that wrote it."""


def _append_event(run: Path, event: Json) -> None:
    with (run / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps({"at": "2026-03-02T12:00:00Z", **event}) + "\n")


@pytest.fixture(scope="module", name="originals")
def written_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each shape with its report."""
    runs = {}
    for name, expected in RUNS.items():
        runs[name] = build_run(tmp_path_factory.mktemp(name), expected).path
        assert volbench("report", str(runs[name])).returncode == 0
    return runs


def _copied(original: Path, results: Path) -> Path:
    return Path(shutil.copytree(original, results / original.name))


def _commands(run: Path, tmp_path: Path) -> dict[str, list[str]]:
    """Every command that reads a run."""
    location, results = str(run), str(run.parent)
    policy = str(ROOT / "suites/policies/move-to-new-volume.yaml")
    queries = ("runs", "cells", "metrics", "findings")
    return {
        "report": ["report", location],
        **{f"report {name}": ["report", location, "--format", name] for name in ("md", "json", "junit", "csv")},
        "report --what-if": ["report", location, "--what-if", "ebs-gp3?iops=6000", "--format", "md"],
        "explain": ["explain", location],
        "explain --json": ["explain", location, "--json"],
        "explain --what-if": ["explain", location, "--what-if", "ebs-gp3?iops=6000"],
        "compare": ["compare", location],
        "gate": ["gate", location, "--policy", policy],
        "list": ["list", "--out", results],
        **{f"query {name}": ["query", f"FROM {name}", "--out", results] for name in queries},
        "site": ["site", results, "--out", str(tmp_path / "site")],
    }


@pytest.mark.parametrize("shape", RUNS)
@pytest.mark.parametrize("alteration", DISPLAYED)
def test_what_this_version_does_not_know_crashes_no_command(
    alteration: str, shape: str, originals: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain_once(monkeypatch)
    run = _copied(originals[shape], tmp_path / "results")
    DISPLAYED[alteration](run)
    for name, command in _commands(run, tmp_path).items():
        if shape == "three" and name not in ("report", "report md", "explain", "gate"):
            continue
        ended = volbench(*command)
        assert ended.returncode in (0, 1, 2, 4, 6), f"{name}: {ended.stderr}"
        assert ended.returncode not in (2, 4) or ended.stderr.count("volbench:") == 1, f"{name}: {ended.stderr}"
        if name.startswith(("report", "explain", "list")):
            assert ended.returncode == 0, f"{name}: {ended.stderr}"
    if shape == "two":
        opened = open_run(run)
        assert opened.summary.headline
        assert opened.metrics(valid_only=False).num_rows >= 0
        assert all(opened.compare(row.metric) for row in opened.report.comparisons)
        assert "<html" in opened.render("html")


@pytest.mark.parametrize("alteration", REFUSED)
def test_a_file_of_another_version_is_refused_as_such(
    alteration: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """It is a file that volbench wrote, another one: its version is what a reader needs."""
    run = _copied(originals["two"], tmp_path / "results")
    _in_run(lambda record: record.update(volbench_version="0.9.1"))(run)
    REFUSED[alteration](run)
    for name, command in _commands(run, tmp_path).items():
        ended = volbench(*command)
        if name in {"list", "site"} or name.startswith("query"):
            assert ended.returncode in (0, 2), f"{name}: {ended.stderr}"
            continue
        assert ended.returncode == 2, f"{name}: {ended.stdout} {ended.stderr}"
        assert UNKNOWN in ended.stderr, name
        assert f"this is version {__version__}" in ended.stderr, f"{name}: {ended.stderr}"
        assert "0.9.1" in ended.stderr, f"{name}: {ended.stderr}"


@pytest.mark.parametrize("file", ["run.json", "cells/001-a-r1/result.json"])
def test_a_run_of_a_superseded_format_is_refused_with_one_message(
    file: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """What reads one run ends with it; what reads many skips it, and names it."""
    run = _copied(originals["two"], tmp_path / "results")
    _edit(run / file, lambda record: record.update(schema=1))
    commands = _commands(run, tmp_path) | {
        "resume": ["resume", str(run)],
        "pack": ["pack", "make", str(run), "--out", str(tmp_path / "p.zip")],
        "recommend": ["recommend", str(run), "--size", "10GiB", "--p95", "20ms"],
    }
    for name, command in commands.items():
        ended = volbench(*command)
        if name in {"list", "site"} or name.startswith("query"):
            assert ended.returncode in (0, 2), f"{name}: {ended.stderr}"  # 2: no view is left for a query
            continue
        assert ended.returncode == 2, f"{name}: {ended.stdout} {ended.stderr}"
        assert ended.stderr.count("schema 1 is a superseded format") == 1, f"{name}: {ended.stderr}"
        assert ended.stderr.count("volbench: ") == 1, f"{name}: {ended.stderr}"
    with pytest.raises(RunUnreadable, match="superseded"):
        assert open_run(run).report
    assert not (tmp_path / "p.zip").exists()


def test_a_metric_that_no_descriptor_has_stays_in_every_report(originals: dict[str, Path], tmp_path: Path) -> None:
    run = _copied(originals["two"], tmp_path / "results")
    _in_steps(_add)(run)
    assert volbench("report", str(run)).returncode == 0
    texts = chain((run / "report.json",), run.glob("report.csv"), run.glob("**/*.csv"))
    assert any(UNKNOWN in path.read_text() for path in texts)
    assert UNKNOWN in volbench("report", str(run), "--format", "csv").stdout


def test_an_unknown_metric_without_a_direction_is_shown_and_takes_no_side(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    """It has its raw name wherever metrics are listed, and nothing calls a volume better or worse by it."""
    run = _copied(originals["two"], tmp_path / "results")
    _in_steps(_add)(run)
    _in_steps(lambda step: step["metrics"][UNKNOWN].update(better="none"))(run)
    _in_run(lambda record: record["suite"]["comparison"].update(metrics=[UNKNOWN, "tps"]))(run)
    opened = open_run(run)
    assert UNKNOWN in opened.metrics()["metric"].to_pylist()
    assert UNKNOWN in {row.metric for row in opened.figures}
    assert UNKNOWN not in {row.metric for row in opened.report.comparisons}
    assert opened.report.summary.figure is not None
    assert opened.report.summary.figure.metric == "tps"
    assert UNKNOWN not in " ".join((opened.summary.headline, opened.summary.sentence, *opened.summary.notes))
    with pytest.raises(UsageError, match=UNKNOWN):
        opened.compare(UNKNOWN)
    assert UNKNOWN in unpacked(opened.render("html"))
    assert UNKNOWN in opened.render("csv")


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_an_unknown_metric_takes_the_side_that_its_file_states(
    direction: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """A metric of a plug-in describes itself: its file has unit and direction, and this version lacks its label."""
    run = _copied(originals["two"], tmp_path / "results")
    volumes = {cell["cell_id"]: cell["volume"] for cell in json.loads((run / "run.json").read_text())["cells"]}
    for path in run.glob("cells/*/result.json"):
        value = {"value": 2.0 if volumes[path.parent.name] == "b" else 1.0, "unit": "parsec", "better": direction}
        result = json.loads(path.read_text())
        for step in result["steps"]:
            step["metrics"][UNKNOWN] = value
        path.write_text(json.dumps(result))
    rows = open_run(run).compare(UNKNOWN)
    assert {row.ratio for row in rows} == {2.0}
    assert {row.unit for row in rows} == {"parsec"}
    assert {row.verdict for row in rows} <= {"better" if direction == "higher" else "worse", "inconclusive"}


@pytest.mark.parametrize("column", ["source", "metric"])
def test_a_series_that_no_descriptor_has_is_drawn_without_a_unit(
    column: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    run = _copied(originals["two"], tmp_path / "results")
    _in_series(column)(run)
    assert volbench("report", str(run)).returncode == 0
    report = json.loads((run / "report.json").read_text())
    assert any(UNKNOWN in row[column] for row in report["associations"])
