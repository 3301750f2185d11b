"""Reads of two sizes after a cell's last step: of which file, and what happens where there is none, or no fio."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.volume.probe.fio import FioJob, FioResult
from volbench.measure.workload import size_contrast
from volbench.measure.workload.interface import Clock
from volbench.measure.workload.size_contrast import ContrastRunner, contrast_of, contrast_of_reads

MIB = 1 << 20


def runner(directory: Path, *, cancelled: bool = False) -> ContrastRunner:
    event = threading.Event()
    if cancelled:
        event.set()
    return ContrastRunner(
        clock=Clock(zero_monotonic_ns=time.monotonic_ns()),
        cancelled=event,
        cwd=directory,
        progress=lambda _: None,
    )


def jobs_of(monkeypatch: pytest.MonkeyPatch) -> list[FioJob]:
    """The loads that would be run; each fails, so that one is all."""
    jobs: list[FioJob] = []

    def load(_: ContrastRunner, job: FioJob, *, step: str) -> None:
        jobs.append(job)
        raise StepFailed(f"fio ended with exit code 1{step}")

    monkeypatch.setattr(size_contrast, "require_tool", lambda _: "/usr/bin/fio")
    monkeypatch.setattr(ContrastRunner, "load", load)
    return jobs


def test_the_largest_file_that_is_stored_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger one with a hole has blocks that no device is asked for."""
    jobs = jobs_of(monkeypatch)
    (tmp_path / "sbtest").mkdir()
    (tmp_path / "sbtest/small.ibd").write_bytes(os.urandom(4 * MIB))
    (tmp_path / "sbtest/large.ibd").write_bytes(os.urandom(5 * MIB + 4096))
    with (tmp_path / "hole").open("wb") as file:
        file.write(os.urandom(4 * MIB))
        file.truncate(8 * MIB)
    contrasts, failure = contrast_of_reads(tmp_path, seconds=4.0, runner=runner(tmp_path))
    assert contrasts == ()
    assert failure.endswith("fio ended with exit code 1")
    (job,) = jobs
    assert (job.file.name, job.pattern, job.direct) == ("large.ibd", "randread", True)
    assert (job.block_bytes, job.extent_bytes) == (4096, 5 * MIB + 4096)
    assert (job.ramp_s, job.runtime_s) == (1.0, 4.5)


@pytest.mark.parametrize(("size_bytes", "reads"), [(4 * MIB - 1, 0), (4 * MIB, 1)])
def test_a_file_of_4_mib_is_enough(
    size_bytes: int, reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_of(monkeypatch)
    (tmp_path / "t.ibd").write_bytes(os.urandom(size_bytes))
    _, failure = contrast_of_reads(tmp_path, seconds=4.0, runner=runner(tmp_path))
    assert len(jobs) == reads
    assert ("no data file has 4 MiB" in failure) is not bool(reads)


def test_without_fio_a_note_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise MissingPrerequisite(f"{name} is not installed")

    monkeypatch.setattr(size_contrast, "require_tool", missing)
    contrasts, failure = contrast_of_reads(tmp_path, seconds=4.0, runner=runner(tmp_path))
    assert contrasts == ()
    assert failure == "no contrast of sizes tells a limit of IOPS from one of bytes: fio is not installed"


def test_a_volume_in_trouble_ends_a_step_and_not_a_cell_that_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_of(monkeypatch)
    (tmp_path / "t.ibd").write_bytes(os.urandom(4 * MIB))
    troubled = runner(tmp_path, cancelled=True)
    assert contrast_of_reads(tmp_path, seconds=4.0, runner=troubled)[0] == ()
    job = FioJob(
        file=tmp_path / "t.ibd",
        pattern="randread",
        block_bytes=16384,
        depth=4,
        extent_bytes=4 * MIB,
        runtime_s=1,
        direct=True,
    )
    point = FioResult(
        operations=1, iops=1, moved_bytes_per_s=16384, latency_ms=(), count=(), latency_ms_mean=1, latency_ms_max=1
    )
    with pytest.raises(StepFailed):
        contrast_of([(job, point)], step="reads", seconds=1.0, runner=troubled)
