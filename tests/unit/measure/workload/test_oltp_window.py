"""When a load's window is complete, from sysbench's reports as they come on a busy machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from step_context import context_on

from volbench.core.records.steps.oltp import OltpStep
from volbench.measure.workload.oltp.oltp import _Run

STEP = OltpStep.model_validate({"name": "load", "warmup": 3, "duration": 8})
START_NS = 1_000_000_000_000


class Reports:
    """A sysbench that reports at these seconds after its start; the first one is late, and says so."""

    def __init__(self, at_s: Sequence[float], *, late_s: float = 0.0) -> None:
        self.at_s, self.late_s, self.read = at_s, late_s, 0

    def lines(self, _on_poll: object) -> Iterator[str]:
        for at_s in self.at_s:
            self.read += 1
            report = {
                "kind": "interval",
                "monotonic_ns": START_NS + round(at_s * 1e9),
                "time_total_s": at_s - self.late_s,
                "bins": [100, 500],
                "mult": 55.4,
                "deduct": -6.9,
                "size": 1024,
                "events": 500,
                **dict.fromkeys(("counted", "reads", "writes", "other", "threads_running"), 500),
                **dict.fromkeys(("errors", "reconnects", "queue_length", "concurrency"), 0),
            }
            yield f"volbench {json.dumps(report)}"

    def cpu_s(self) -> float:
        return 1.0

    def wait(self) -> int:
        return 0


class Nothing:
    """No concurrent step."""

    def begin(self) -> None: ...


def followed(reports: Reports, directory: Path, *, is_last: bool = True, before_load: bool = False) -> _Run:
    context, _ = context_on(directory)
    run = _Run(STEP, replace(context, is_last=is_last, before_load=before_load))
    run.follow(cast("Any", reports), cast("Any", Nothing()))
    return run


@pytest.mark.parametrize(
    ("at_s", "late_s"),
    [
        ([float(n) for n in range(1, 13)], 0.0),
        ([1.053, *(float(n) for n in range(2, 13))], 0.053),
        ([float(n) - 0.01 for n in range(1, 13)], 0.0),
        ([1.0, 2.0, *(n + 0.2 for n in range(3, 13))], 0.0),
    ],
    ids=["in time", "a late first report", "early", "late from the third on"],
)
def test_a_load_ends_with_the_last_report_of_its_window(at_s: list[float], late_s: float, tmp_path: Path) -> None:
    """Of a real demo: the first report came 53 ms late, and the load went on for a second that nothing needed."""
    reports = Reports(at_s, late_s=late_s)
    run = followed(reports, tmp_path)
    assert (reports.read, len(run.measured)) == (11, 8)


@pytest.mark.parametrize(("before_load", "read"), [(True, 11), (False, 12)])
def test_a_load_before_another_load_ends_with_its_window_too(before_load: bool, read: int, tmp_path: Path) -> None:
    """Of two loads in each of six cells, the first one's last second was a twentieth of the time to a verdict."""
    reports = Reports([float(n) for n in range(1, 13)])
    run = followed(reports, tmp_path, is_last=False, before_load=before_load)
    assert (reports.read, len(run.measured)) == (read, 8)


def test_a_load_without_a_report_for_seconds_is_waited_for(tmp_path: Path) -> None:
    reports = Reports([1.0, 2.0, 3.0, 4.0, 7.5, 8.5, 9.5, 10.0, 11.0, 12.0])
    run = followed(reports, tmp_path)
    assert reports.read == 9
    assert run.measured[-1].interval.end_ns == START_NS + 11 * 10**9
