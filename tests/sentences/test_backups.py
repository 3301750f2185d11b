"""What backups take and do to a load: tables and windows against the cells, of a recorded and of a built run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from proofread import EXAMPLES
from raw_decisions import backups, cells_of, table
from sentence_runs import RESULT, volumes
from stored_files import REPORT, stored_text
from synthetic_run import Synthetic, build_run

from sentences import plain, value_of
from volbench.core.records.cell import COUNTED_AS_SLOWEST
from volbench.core.records.metrics import metric
from volbench.core.records.report import BackupRow, Report
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown

GP2 = EXAMPLES / "gp2-credit-exhaustion"
WINDOW_S = 100.0
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "ms": 0.001}
Backups = Mapping[tuple[str, str, str], Mapping[str, Any]]


def objections(rows: Sequence[BackupRow], raw: Backups) -> list[str]:
    """What rows have otherwise than the cells."""
    texts = []
    for row in rows:
        expected = raw.get((row.volume, row.step, row.tool), {})
        stated = row.model_dump()
        texts += [
            f"{row.volume} {row.step} {name}: {stated[name]}"
            for name, value in expected.items()
            if stated[name] != (value if value is None else pytest.approx(value))
        ]
        if row.window_s is not None and row.fits != (expected["dump_s_max"] <= row.window_s):
            texts.append(f"{row.volume} {row.step} fits: {row.fits}")
    stated_names = {(row.volume, row.step, row.tool) for row in rows}
    return texts + [f"{name} has no row" for name in raw if name not in stated_names]


def seconds(text: str) -> float:
    """`1 min 30 s` -> 90.0."""
    return sum(value_of(number) * SECONDS[unit] for number, unit in re.findall(r"([\d,.]+) (min|ms|s|h)", text))


def of_table(text: str, raw: Backups) -> list[str]:
    """What the table of a page has otherwise than the cells."""
    texts, lines = [], [row for row in table(text, "volume") if tuple(row[:3]) in raw]
    for name, step, tool, *figures, window in lines:
        expected = raw[name, step, tool]
        stated = [seconds(figures[0]), seconds(figures[1]), *map(number, figures[2:])]
        right = [expected[key] for key in ("dump_s", "dump_s_max", *FIGURES)]
        if stated != [None if value is None else pytest.approx(value, rel=0.006) for value in right]:
            texts.append(f"{name} {step} {figures}")
        if seconds(window.partition("recommended ")[2]) != expected["recommended_window_s"]:
            texts.append(f"{name} {step} {window}")
        limit, _, verdict = window.partition("; ")
        if verdict and ("does not fit" in limit) != (expected["dump_s_max"] > seconds(limit)):
            texts.append(f"{name} {step} {window}")
    return texts if len(lines) == len(raw) else [*texts, f"{len(lines)} rows of {len(raw)}"]


FIGURES = ("latency_ms_p95_alone", "latency_ms_p95_during", "tps_alone", "tps_during")


def number(text: str) -> float | None:
    return value_of(text.partition(" ")[0]) if text[:1].isdigit() else None


@pytest.fixture(scope="module")
def recorded() -> Report:
    return Report.model_validate_json(stored_text(GP2 / REPORT))


@pytest.fixture(scope="module")
def raw_recorded() -> Backups:
    return backups(json.loads(stored_text(GP2 / REPORT))["cells"], {})


def night(cell: Path, number: int) -> None:
    """Let a cell have a night: the backup beside the load, the load during it, and alone in another step."""
    result = json.loads((cell / RESULT).read_text())
    first = result["steps"][0]
    slower = (2.4 if "gp3" in cell.name else 1.0) * (1 + number / 50)

    def step(
        name: str, values: Mapping[str, float], *, valid: bool = True, notes: Sequence[str] = ()
    ) -> dict[str, Any]:
        metrics = {key: metric(key, value).model_dump(mode="json") for key, value in values.items()}
        reasons = [] if valid else ["client CPU-bound"]
        return {
            **first,
            "step": name,
            "metrics": metrics,
            "valid": valid,
            "invalid_reasons": reasons,
            "notes": notes,
        }

    lost = number == 4  # one whose slowest answers never came
    during = {"tps": 15.0 / slower} if lost else {"tps": 15.0 / slower, "latency_ms_p95": 90.0 * slower}
    result["steps"] = [
        step("night/beside-mydumper", {"dump_s": 45.0 * slower, "dump_mib_per_s": 10.0}, valid=number != 1),
        step("night/during", during, notes=(f"3 transactions: {COUNTED_AS_SLOWEST}",) if lost else ()),
        step("night/alone", {"tps": 19.0, "latency_ms_p95": 11.0}),
        step("quiet", {"tps": 20.0, "latency_ms_p95": 9.0 * slower}),
    ]
    (cell / RESULT).write_text(json.dumps(result))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Backups]:
    steps = (
        OltpStep(
            name="night", rate=20, concurrent=(DumpStep.model_validate({"tool": "mydumper", "window": WINDOW_S}),)
        ),
        OltpStep(name="quiet", rate=20),
    )
    run = build_run(tmp_path_factory.mktemp("nights"), Synthetic(volumes=volumes(1, 0.5), steps=steps, repeats=3))
    for number, cell in enumerate(sorted((run.path / "cells").iterdir())):
        night(cell, number)
    return build_report(run), backups(cells_of(run.path), {"night": "quiet"})


def test_recorded_backups_are_those_of_their_cells(recorded: Report, raw_recorded: Backups) -> None:
    assert len(raw_recorded) >= 5
    assert objections(recorded.backups, raw_recorded) == []


@pytest.mark.parametrize("page", ["anew", "committed"])
def test_each_number_of_the_recorded_table_is_that_of_the_cells(
    recorded: Report, raw_recorded: Backups, page: str
) -> None:
    text = markdown(recorded) if page == "anew" else (GP2 / "report.md").read_text()
    assert of_table(plain(text), raw_recorded) == []


def test_a_built_night_is_that_of_its_files(built: tuple[Report, Backups]) -> None:
    """Medians of valid cells, the slowest one for the window, and the step with the same load for `alone`."""
    report, raw = built
    assert {(name, row["cells"]) for (name, *_), row in raw.items()} == {("disk", 3), ("gp3", 2)} or {
        (name, row["cells"]) for (name, *_), row in raw.items()
    } == {("disk", 2), ("gp3", 3)}
    assert {row.fits for row in report.backups} == {True, False}
    assert objections(report.backups, raw) == []
    assert of_table(plain(markdown(report)), raw) == []


@pytest.mark.parametrize(
    "change",
    [
        {"dump_s": 42.0},
        {"dump_s_max": 44.0},
        {"latency_ms_p95_during": 2250.0},
        {"tps_alone": 2.1},
        {"recommended_window_s": 60.0},
        {"cells": 5},
    ],
)
def test_a_changed_figure_of_a_row_is_objected_to(
    recorded: Report, raw_recorded: Backups, change: dict[str, float]
) -> None:
    first, *further = recorded.backups
    assert len(objections((first.model_copy(update=change), *further), raw_recorded)) == 1
    assert objections(further, raw_recorded)


@pytest.mark.parametrize(
    ("stated", "wrong"),
    [("| 41.3 s |", "| 42.3 s |"), ("| 2,161 ms |", "| 2,191 ms |"), ("recommended 2 min", "recommended 1 min")],
)
def test_a_wrong_number_of_the_table_is_found(
    recorded: Report, raw_recorded: Backups, stated: str, wrong: str
) -> None:
    text = plain(markdown(recorded))
    assert stated in text
    assert of_table(text.replace(stated, wrong), raw_recorded)


def test_a_window_that_is_said_to_fit_and_does_not_is_found(built: tuple[Report, Backups]) -> None:
    report, raw = built
    text = plain(markdown(report))
    assert of_table(text.replace("does not fit", "fits"), raw)
    slow = next(row for row in report.backups if not row.fits)
    rows = [row.model_copy(update={"fits": True}) if row is slow else row for row in report.backups]
    assert objections(rows, raw)
