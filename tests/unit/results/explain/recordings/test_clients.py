"""The queue against the clients, on recordings whose waiting threads the kernel counted (state D in /proc)."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from volbench.core.records.report import FindingRow
from volbench.results.explain.recordings.clients import QueueOfClients, without_acquittal
from volbench.results.explain.recordings.directory import explain_recorded

RECORDINGS = Path(__file__).parents[4] / "fixtures" / "recordings"
PARENTS = sorted(file.parent for file in RECORDINGS.glob("*/truth.json"))


def truth_of(directory: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((directory / "truth.json").read_text())
    return truth


def client_log(result: Path, directory: Path) -> Path:
    """The client's log as sysbench prints it, from the rates and latencies that it printed."""
    truth = truth_of(result)
    log = directory / "sysbench.log"
    log.write_text(
        "".join(
            f"[ {second}s ] thds: {truth['threads']} tps: {tps} qps: {20 * tps:.2f} (r/w/o: 1.00/1.00/1.00)"
            f" lat (ms,95%): {latency} err/s: 0.00 reconn/s: 0.00\n"
            for second, (tps, latency) in enumerate(
                zip(truth["tps"], truth["latency_p95_ms"], strict=True), start=1
            )
        )
    )
    return log


@pytest.mark.parametrize("directory", PARENTS, ids=lambda location: location.name)
@pytest.mark.parametrize("tool", ["sar.txt", "iostat.txt"])
def test_the_queue_tells_whether_most_clients_wait_for_the_volume(
    directory: Path, tool: str, tmp_path: Path
) -> None:
    """As the kernel counted: then the volume is not acquitted, and a note says so where no storage cause does."""
    truth = truth_of(directory)
    most_wait = mean(truth["threads_in_disk_wait"]) >= 0.5 * truth["threads"]
    answer = explain_recorded([directory / tool, client_log(directory, tmp_path)], device=truth["device"])
    causes = {row.cause for row in answer.findings}
    is_noted = any("most of them wait for it" in note for note in answer.notes)
    if most_wait:
        assert is_noted or any(cause.startswith("storage.") for cause in causes)
        assert "none" not in causes
    else:
        assert not is_noted


def test_without_the_number_of_clients_nothing_is_said_of_them() -> None:
    answer = explain_recorded([RECORDINGS / "latency-always-1" / "iostat.txt"])
    assert not any("most of them wait for it" in note for note in answer.notes)


def test_an_acquittal_that_the_queue_speaks_against_is_dropped() -> None:
    """16 of 16 clients wait in the volume: whatever a rule says of waiting times."""
    rows = [
        FindingRow(
            cause=cause,
            volume="sda",
            step="recorded",
            cell_ids=("x",),
            window_s=(0, 1),
            share=None,
            confidence=0.9,
            evidence=(),
            advice="",
        )
        for cause in ("none", "cpu.server_saturated")
    ]
    full, idle = (QueueOfClients(in_flight=in_flight, clients=16) for in_flight in (16, 1))
    assert [row.cause for row in without_acquittal(rows, full)] == ["cpu.server_saturated"]
    assert len(without_acquittal(rows, idle)) == 2
    assert len(without_acquittal(rows, None)) == 2
