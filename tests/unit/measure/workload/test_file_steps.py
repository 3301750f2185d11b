"""Steps on files, run for real in a directory: trees, large files, fio; what they report and what they leave."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from step_context import NoServer, context_on

from volbench.core.base.marker import MARKER
from volbench.core.records.size_contrast import contrast_blocks
from volbench.core.records.steps.fio import FioStep
from volbench.core.records.steps.sequential import SequentialStep
from volbench.core.records.steps.small_files import SmallFilesStep
from volbench.errors import MissingPrerequisite, Refused, StepFailed
from volbench.machine.volume.probe.fio import FioJob
from volbench.measure.workload import size_contrast
from volbench.measure.workload.file_steps import small_files
from volbench.measure.workload.file_steps.file_tree import file_sizes, objects_of, planned_tree
from volbench.measure.workload.registry import workload_for
from volbench.measure.workload.timed import timed_operations

SMALL = SmallFilesStep.model_validate({"name": "files", "files": 300, "total_size": "2MiB"})


def names_in(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


def test_log_normal_sizes_add_up_to_the_total_and_are_the_same_for_one_seed() -> None:
    sizes = file_sizes(SMALL, seed=3)
    assert len(sizes) == 300
    assert sum(sizes) == 2 << 20
    assert sizes == file_sizes(SMALL, seed=3) != file_sizes(SMALL, seed=4)
    spread = np.std(np.log(np.array(sizes)[np.array(sizes) > 0]))
    assert spread == pytest.approx(1.5, abs=0.25)


def test_given_sizes_are_used_in_turn() -> None:
    step = SmallFilesStep.model_validate({"files": 5, "sizes": ["1KiB", 7]})
    assert file_sizes(step, seed=1) == [1024, 7, 1024, 7, 1024]
    assert step.temporary_bytes() >= 3 * sum(file_sizes(step, seed=1))


def test_objects_are_spread_over_256_directories_as_git_does() -> None:
    tree = planned_tree(SmallFilesStep(files=4000), Path("/t"), seed=1)
    objects = objects_of(tree, Path("/o"), seed=1)
    assert len({Path(item.path).parent.name for item in objects}) == 256
    assert {len(Path(item.path).name) for item in objects} == {38}


def test_every_phase_is_a_row_with_rates_and_latencies_and_nothing_is_left(tmp_path: Path) -> None:
    ctx, remaining = context_on(tmp_path)
    outcome = workload_for(SMALL).run(SMALL, ctx)
    assert [piece.suffix for piece in outcome.sub_results] == list(SMALL.phases)
    for section in outcome.sub_results:
        metrics = section.outcome.metrics
        rate = metrics["warm_files_per_s" if section.suffix == "read_warm" else "files_per_s"]
        assert rate.value == pytest.approx(300 / metrics["files_s"].value)
        assert metrics["latency_ms_p50"].value <= metrics["latency_ms_p99"].value
        # fio rounds a percentile to a bin of its histogram: 64 to each power of two.
        assert metrics["latency_ms_p99"].value <= metrics["latency_ms_max"].value * (1 + 1 / 64)
        assert ("files_mib_per_s" in metrics) == (section.suffix not in ("stat", "delete", "read_warm"))
        assert sum(row.events for row in remaining.histograms if row.step == f"files/{section.suffix}") == 300
    total = sum(
        piece.outcome.metrics["files_s"].value for piece in outcome.sub_results if piece.suffix != "read_warm"
    )
    assert outcome.metrics["files_total_s"].value == pytest.approx(total)
    assert names_in(ctx.volume_dir) == [MARKER]


@pytest.mark.parametrize(
    ("filesystem", "permitted", "dropped", "noted"),
    [("ext4", True, True, False), ("ext4", False, True, True), ("xfs", True, False, False)],
)
def test_inodes_deleted_by_the_cell_before_do_not_slow_down_ext4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, filesystem: str, permitted: bool, dropped: bool, noted: bool
) -> None:
    drop = Mock(return_value=permitted)
    monkeypatch.setattr(small_files, "forget_deleted_inodes", drop)
    ctx, _ = context_on(tmp_path)
    ctx = replace(ctx, volume_facts=ctx.volume_facts.model_copy(update={"filesystem": filesystem}))
    outcome = workload_for(SMALL).run(SMALL, ctx)
    assert drop.called is dropped
    assert any("slower on ext4" in note for note in outcome.notes) is noted


@pytest.mark.parametrize("publish", ["link", "rename"])
def test_several_jobs_share_the_files_and_objects_get_their_names(tmp_path: Path, publish: str) -> None:
    step = SMALL.model_copy(update={"jobs": 4, "objects_publish": publish, "sync": "each", "files": 50})
    ctx, remaining = context_on(tmp_path)
    workload_for(step).run(step, ctx)
    assert sum(row.events for row in remaining.histograms if row.step == "files/objects") == 50


def test_a_warm_read_is_said_to_be_memory(tmp_path: Path) -> None:
    ctx, _ = context_on(tmp_path)
    outcomes = {piece.suffix: piece.outcome for piece in workload_for(SMALL).run(SMALL, ctx).sub_results}
    assert "page cache" in outcomes["read_warm"].notes[0]
    assert "small files: " in outcomes["read_cold"].notes[0]
    assert outcomes["read_cold"].details["files"] == 300


def test_without_our_marker_nothing_is_written(tmp_path: Path) -> None:
    ctx, _ = context_on(tmp_path)
    (ctx.volume_dir / MARKER).unlink()
    with pytest.raises(Refused):
        workload_for(SMALL).run(SMALL, ctx)
    assert not names_in(ctx.volume_dir)


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path) -> None:
    step = SMALL.model_copy(update={"total_size_bytes": 1 << 60})
    ctx, _ = context_on(tmp_path)
    with pytest.raises(MissingPrerequisite, match="not enough free space for the files of step files"):
        workload_for(step).check(step, ctx)


def test_a_cancelled_step_ends_and_cleans_up(tmp_path: Path) -> None:
    ctx, _ = context_on(tmp_path)
    ctx = replace(ctx, cancelled=threading.Event())
    ctx.cancelled.set()
    with pytest.raises(StepFailed, match="cancelled"):
        workload_for(SMALL).run(SMALL, ctx)
    assert names_in(ctx.volume_dir) == [MARKER]


def test_a_failing_operation_ends_all_jobs() -> None:
    def fail(item: int) -> None:
        if item == 5:
            raise OSError(28, "no space")

    with pytest.raises(OSError, match="no space"):
        timed_operations(
            range(1000),
            [fail, fail],
            label="x",
            timeout_s=60,
            cancelled=threading.Event(),
            on_progress=lambda _: None,
        )


def test_a_large_file_is_written_and_read_in_every_mode(tmp_path: Path) -> None:
    step = SequentialStep.model_validate({"name": "dd", "size": "8MB"})
    ctx, _ = context_on(tmp_path)
    outcome = workload_for(step).run(step, ctx)
    outcomes = {piece.suffix: piece.outcome for piece in outcome.sub_results}
    left_out = {"write_direct", "read_direct"} - set(outcomes)
    assert {"write", "write_fsync", "read_cold", "read_warm"} <= set(outcomes)
    assert len(outcome.notes) == 1 + len(left_out)
    memory = {"write": "unsynced_write_mib_per_s", "read_warm": "warm_read_mib_per_s"}
    for mode, section in outcomes.items():
        assert section.metrics[memory.get(mode, "sequential_mib_per_s")].value > 0
        assert ("sequential_mib_per_s" in section.metrics) == (mode not in memory)
    assert names_in(ctx.volume_dir) == [MARKER]


@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
def test_each_combination_of_fio_is_a_row_on_a_stopped_server(tmp_path: Path) -> None:
    step = FioStep.model_validate(
        {
            "name": "sweep",
            "rw": ["randread", "randrw"],
            "iodepth": [1, 4],
            "size": "8MiB",
            "ramp": 0,
            "duration": "200ms",
            "direct": False,
        }
    )
    server = NoServer()
    ctx, _ = context_on(tmp_path, server=server)
    outcome = workload_for(step).run(step, ctx)
    rows = [(piece.suffix, piece.parameters["iodepth"]) for piece in outcome.sub_results]
    assert rows == [("randread-4KiB", 1), ("randread-4KiB", 4), ("randrw-4KiB", 1), ("randrw-4KiB", 4)]
    for section in outcome.sub_results:
        metrics = section.outcome.metrics
        moved = metrics["fio_iops"].value * 4096 / 2**20
        assert metrics["fio_mib_per_s"].value == pytest.approx(moved, rel=0.05)
        assert metrics["latency_ms_p50"].value <= metrics["latency_ms_p99"].value
        # fio rounds a percentile to a bin of its histogram: 64 to each power of two.
        assert metrics["latency_ms_p99"].value <= metrics["latency_ms_max"].value * (1 + 1 / 64)
    assert outcome.metrics["fio_prefill_s"].value > 0
    assert (server.running, server.starts) == (True, 1)
    assert names_in(ctx.volume_dir) == [MARKER]


def fio_step(**changed: object) -> FioStep:
    return FioStep.model_validate({"name": "reads", "iodepth": [2, 4], "block_size": "16KiB", **changed})


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({"duration": 10}, 5.0),
        ({"duration": 9.9}, 0.0),
        ({"duration": 10, "rw": ["randread", "randwrite"]}, 5.0),
        ({"duration": 10, "block_size": ["4KiB", "16KiB"]}, 0.0),
        ({"duration": 10, "direct": False}, 0.0),
        ({"duration": 10, "size_contrast": 0}, 0.0),
        ({"duration": 1, "size_contrast": 3}, 3.0),
    ],
)
def test_a_contrast_of_sizes_follows_a_long_step_of_one_size(changed: dict[str, object], seconds: float) -> None:
    step = fio_step(**changed)
    assert step.contrast_s == seconds
    without = fio_step(**{**changed, "size_contrast": 0})
    more_s = step.cost(0).unmeasured_s - without.cost(0).unmeasured_s
    assert more_s == pytest.approx(len(step.rw) * (seconds + 1) if seconds else 0)
    assert step.parameters() == without.parameters()


def test_a_contrast_of_sizes_needs_one_size_without_the_page_cache() -> None:
    for changed in ({"block_size": ["4KiB", "16KiB"]}, {"direct": False}):
        with pytest.raises(ValueError, match="needs one `block_size`, and `direct`"):
            fio_step(size_contrast=2, **changed)


@pytest.mark.parametrize(
    ("block_kib", "contrast_kib"),
    [(4, [16]), (12, [48]), (16, [64, 4]), (64, [256, 16]), (68, [17]), (256, [64]), (1024, [256]), (1028, [])],
)
def test_sizes_of_a_contrast_are_one_operation_of_a_volume(block_kib: int, contrast_kib: list[int]) -> None:
    assert contrast_blocks(block_kib << 10) == tuple(kib << 10 for kib in contrast_kib)


@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
def test_a_contrast_of_sizes_is_outside_of_the_steps_windows(tmp_path: Path) -> None:
    step = fio_step(size="8MiB", ramp=0, duration="200ms", size_contrast="200ms")
    ctx, _ = context_on(tmp_path, server=NoServer())
    outcome = workload_for(step).run(step, ctx)
    if not outcome.size_contrasts:
        pytest.skip(f"no O_DIRECT here: {outcome.notes}")
    assert {contrast.block_size_bytes >> 10 for contrast in outcome.size_contrasts} <= {64, 4}
    for contrast in outcome.size_contrasts:
        assert (contrast.step, contrast.rw, contrast.in_flight) == ("reads", "randread", 8)
        assert contrast.window_s[0] >= outcome.window_s[1]
        assert contrast.window_s[1] - contrast.window_s[0] == pytest.approx(0.2)
        assert contrast.mib_per_s == pytest.approx(contrast.iops * contrast.block_size_bytes / 2**20, rel=0.05)
    assert [piece.suffix for piece in outcome.sub_results] == ["randread-16KiB"] * 2
    assert names_in(ctx.volume_dir) == [MARKER]


@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
def test_a_contrast_of_sizes_that_fails_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: size_contrast.ContrastRunner, job: FioJob, *, step: str) -> None:
        raise StepFailed("fio ended with exit code 1")

    monkeypatch.setattr(size_contrast.ContrastRunner, "load", failing)
    step = fio_step(size="8MiB", ramp=0, duration="200ms", size_contrast="200ms")
    ctx, _ = context_on(tmp_path, server=NoServer())
    outcome = workload_for(step).run(step, ctx)
    assert outcome.size_contrasts == ()
    assert outcome.notes[-1].endswith("from one of bytes: fio ended with exit code 1")
    assert len(outcome.sub_results) == 2
