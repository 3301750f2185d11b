"""Runs that were interrupted, or lost files: each gives a report, or one message that says what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kernel_throttle import RUNS
from sentence_runs import build

from volbench.errors import RunUnreadable
from volbench.results.report.build import build_report, report_of
from volbench.results.report.formats.html import html
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.page_data import page_data
from volbench.results.report.render import text_of
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

GOLDEN = Path(__file__).parents[3] / "golden" / "run"
RESULT, SERIES, HISTOGRAMS = "result.json", "series.parquet", "histograms.parquet"
Damage = Callable[[Path], object]


def recorded_pair(directory: Path) -> Path:
    """A real run beside the kernel's throttle, its cell four times: two volumes, two cells of each."""
    run = directory / "pair"
    shutil.copytree(RUNS / "device-read-800", run)
    record = json.loads((run / "run.json").read_text())
    (volume,), (cell,) = record["volumes"], record["cells"]
    record["volumes"] = [{**volume, "name": name} for name in "vw"]
    record["cells"] = [
        {**cell, "cell_id": f"{repeat:02}-{name}", "volume": name, "repeat": repeat, "block": repeat - 1}
        for repeat in (1, 2)
        for name in "vw"
    ]
    (run / "run.json").write_text(json.dumps(record))
    for name in (planned["cell_id"] for planned in record["cells"]):
        of_cell = run / "cells" / name
        if name != cell["cell_id"]:
            shutil.copytree(run / "cells" / cell["cell_id"], of_cell)
        result = json.loads((of_cell / RESULT).read_text())
        (of_cell / RESULT).write_text(json.dumps({**result, "cell_id": name}))
    return run


MAKERS: Mapping[str, Callable[[Path], Path]] = {
    "recorded pair": recorded_pair,
    "golden": lambda directory: Path(shutil.copytree(GOLDEN, directory / "golden")),
    "small files": lambda directory: build("phases", directory).path,
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each run as it was before its damage."""
    return {name: make(tmp_path_factory.mktemp("original")) for name, make in MAKERS.items()}


@pytest.fixture
def run(request: pytest.FixtureRequest, originals: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the run with the parameter's name."""
    original = originals[request.param]
    return Path(shutil.copytree(original, tmp_path / original.name))


def of_result(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(cell: Path) -> None:
        record = json.loads((cell / RESULT).read_text())
        change(record)
        (cell / RESULT).write_text(json.dumps(record))

    return damage


def of_steps(**changed: object) -> Damage:
    return of_result(lambda record: [step.update(changed) for step in record["steps"]])


def _no_work(record: dict[str, Any]) -> None:
    for step in record["steps"]:
        for metric in step["metrics"].values():
            metric["value"] = 0.0


def first_rows(name: str, rows: int) -> Damage:
    def damage(cell: Path) -> None:
        if (cell / name).exists():
            pq.write_table(pq.read_table(cell / name).slice(0, rows), cell / name)

    return damage


def cut(name: str) -> Damage:
    return lambda cell: (cell / name).exists() and (cell / name).write_bytes((cell / name).read_bytes()[:150])


def absent(name: str) -> Damage:
    return lambda cell: (cell / name).unlink(missing_ok=True)


DAMAGES: Mapping[str, Damage] = {
    "no cell": shutil.rmtree,
    "no result": absent(RESULT),
    "no series": absent(SERIES),
    "no histograms": absent(HISTOGRAMS),
    "series without a row": first_rows(SERIES, 0),
    "few samples": first_rows(SERIES, 20),
    "few transactions": first_rows(HISTOGRAMS, 1),
    "series cut": cut(SERIES),
    "histograms cut": cut(HISTOGRAMS),
    "no steps": of_result(lambda record: record.update(steps=[])),
    "last step only": of_result(lambda record: record.update(steps=record["steps"][-1:])),
    "steps without figures": of_steps(metrics={}),
    "steps that did nothing": of_result(_no_work),
    "windows of no length": of_steps(window_s=[5.0, 5.0]),
    "windows without a sample": of_steps(window_s=[1e5, 2e5]),
    "windows of a second": of_steps(window_s=[5.0, 6.0]),
    "failed": of_result(lambda record: record.update(status="failed")),
    "no phases": of_result(lambda record: record.update(phases=[])),
    "no sources": of_result(lambda record: record.update(sources=[])),
}


def cells_of(run: Path) -> list[Path]:
    return sorted(path for path in (run / "cells").iterdir() if (path / RESULT).exists())


def pages(run: Path) -> str:
    """All that is written of a run; a fault is one of volbench."""
    loaded = load_run(RunDirectory.open(run))
    report = report_of(loaded)
    assert report.summary.headline
    texts = [text_of(report, name) for name in ("md", "json", "junit", "csv")]
    return "\n".join((*texts, *summary_lines(report), html(report, page_data(report, loaded))))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("run", "every"),
    [("recorded pair", False), ("recorded pair", True), ("golden", True), ("small files", True)],
    indirect=["run"],
)
def test_a_damaged_run_has_a_report(run: Path, damage: str, *, every: bool) -> None:
    for cell in cells_of(run)[: None if every else 1]:
        DAMAGES[damage](cell)
    assert "Traceback" not in pages(run)


@pytest.mark.parametrize("run", ["recorded pair", "golden"], indirect=True)
def test_an_interrupted_run_has_a_report_after_any_cell(run: Path) -> None:
    for number, cell in reversed(list(enumerate(cells_of(run)))):
        shutil.rmtree(cell)
        assert f"{number} of " in pages(run)


def test_an_interrupted_run_is_resumed_and_not_repeated(tmp_path: Path) -> None:
    """`3 cells of each volume can` stood below a run of which 4 of 15 cells were done."""
    run = build("three", tmp_path).path
    assert "resume" not in pages(run)
    for cell in cells_of(run)[4:]:
        shutil.rmtree(cell)
    report = build_report(RunDirectory.open(run))
    assert "resume the run to decide" in report.summary.headline
    assert "repeat" not in report.summary.headline
    assert report.reproduce[-1].startswith("volbench resume ")
    assert report.reproduce[-1].endswith(run.name)


@pytest.mark.parametrize("run", ["golden"], indirect=True)
def test_a_result_that_was_cut_is_named(run: Path) -> None:
    cell = cells_of(run)[0]
    cut(RESULT)(cell)
    with pytest.raises(RunUnreadable, match="truncated") as raised:
        pages(run)
    assert cell.name in str(raised.value)
