"""A server whose logs and other files are on volumes of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import live_run
import pytest
from live_run import AT_FULL_SPEED, Bench

from volbench.core.base.marker import MARKER
from volbench.core.records.cell import CellResult
from volbench.results.store.series import SeriesKey, read_series

PRECIOUS = "of the user's"
ALL_OF_MYSQL = ("redo", "binlog", "doublewrite", "undo", "tmp")
ALL_OF_MARIADB = ("log", "tmp")
WRITES = ("steps.0.test=oltp_write_only", "steps.0.duration=6s")


def layout(bench: Bench, components: tuple[str, ...]) -> str:
    """The SPEC of directories with a file of the user's in each."""
    for name in ("data", *components):
        (bench.root / name).mkdir()
        (bench.root / name / "precious").write_text(PRECIOUS)
    return ",".join(f"{name}:path:{bench.root / name}" for name in ("data", *components))


def run_on(bench: Bench, spec: str, *settings: str) -> live_run.Ended:
    bench.volumes.clear()
    return bench.end(bench.start(*settings, options=["--volume", f"a={spec}"]))


def assert_untouched(bench: Bench, components: tuple[str, ...]) -> None:
    for name in ("data", *components):
        assert [path.name for path in (bench.root / name).iterdir()] == ["precious"], name
        assert (bench.root / name / "precious").read_text() == PRECIOUS


def only_result(bench: Bench) -> CellResult:
    (result,) = bench.directory.results()
    return result


def test_each_role_is_on_its_volume_and_nothing_stays(bench: Bench) -> None:
    """MySQL 9.7 in containers with every role elsewhere, the installed server with those that it has."""
    components = ALL_OF_MYSQL if bench.target == "docker" else ALL_OF_MARIADB
    ended = run_on(bench, layout(bench, components), *WRITES)
    assert ended.code in live_run.FINISHED, ended.output
    result = only_result(bench)
    assert {component.name for component in result.layout} == set(components)
    assert all(component.volume_facts.filesystem for component in result.layout)
    for name in components:
        assert f"on component {name}" in " ".join(result.notes)
    sources = {quality.source: quality.available for quality in result.sources}
    for name in components:
        assert sources[f"diskstats@{name}"] == sources["diskstats"]
    assert_untouched(bench, components)
    assert bench.leftovers() == []


@pytest.mark.mysqld
def test_each_component_has_a_marked_directory_during_the_run(local: Bench) -> None:
    """So that a later `cell erase` recognises what a killed run left, on each volume."""
    spec = layout(local, ("log",))
    local.volumes.clear()
    process = local.start(*WRITES, options=["--volume", f"a={spec}"])
    local.until(local.in_step, process)
    for name in ("data", "log"):
        assert list((local.root / name).glob(f"volbench-*/{MARKER}")), name
    assert local.end(process).code in live_run.FINISHED
    assert_untouched(local, ("log",))


@contextmanager
def mounted(directory: Path, *options: str) -> Iterator[Path]:
    directory.mkdir()
    done = subprocess.run(["mount", *options, str(directory)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False, capture_output=True)


def test_a_log_volume_that_is_full_ends_the_run_and_is_named(bench: Bench) -> None:
    """It has room for the copy of the redo log, and none for the binary log: exit code 3, and which volume."""
    (bench.root / "data").mkdir()
    with mounted(bench.root / "binlog", "-t", "tmpfs", "-o", "size=2m", "volbench-test") as directory:
        spec = f"data:path:{bench.root / 'data'},binlog:path:{directory}"
        ended = run_on(bench, spec, *WRITES, AT_FULL_SPEED, "dataset.rows=20000", "steps.0.duration=60s")
        assert ended.code == 3, ended.output
        assert "the volume is full" in ended.output
        assert "binary log (binlog)" in ended.output
        assert list(directory.iterdir()) == []
    assert list((bench.root / "data").iterdir()) == []


@pytest.mark.mysqld
def test_a_read_only_log_volume_is_refused_before_anything_is_made(local: Bench) -> None:
    (local.root / "data").mkdir()
    with mounted(local.root / "log", "-t", "tmpfs", "-o", "ro", "volbench-test") as directory:
        ended = run_on(local, f"data:path:{local.root / 'data'},log:path:{directory}")
        assert ended.code == 3, ended.output
        assert "a.log" in ended.output
        assert "read-only" in ended.output
    assert list((local.root / "data").iterdir()) == []


@pytest.mark.mysqld
def test_a_log_volume_that_fails_in_mid_run_is_named(local: Bench, root: Path) -> None:
    """Its ext4 finds an error and becomes read-only: the server stops, and the message says which volume."""
    image = root / "image"
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-e", "remount-ro", str(image)], check=True, capture_output=True)
    (local.root / "data").mkdir()
    with mounted(local.root / "log", "-o", "loop", str(image)) as directory:
        local.volumes.clear()
        spec = f"data:path:{local.root / 'data'},log:path:{directory}"
        process = local.start(*WRITES, "steps.0.duration=60s", options=["--volume", f"a={spec}"])
        local.until(local.in_step, process)
        device = subprocess.run(
            ["findmnt", "-no", "SOURCE", str(directory)], check=True, capture_output=True, text=True
        ).stdout.strip()
        (Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error").write_text("volbench-test")
        ended = local.end(process)
        assert ended.code == 3, ended.output
        assert "read-only" in ended.output
        assert "redo and binary log (log)" in ended.output
    image.unlink()


@pytest.mark.mysqld
def test_a_doublewrite_volume_on_mariadb_is_refused_before_the_run(local: Bench) -> None:
    ended = run_on(local, layout(local, ("doublewrite",)))
    assert ended.code == 2, ended.output
    assert "MariaDB writes its doublewrite buffer into the system tablespace" in ended.output
    assert_untouched(local, ("doublewrite",))


@pytest.mark.emulator
@pytest.mark.mysqld
def test_the_writes_of_the_logs_reach_the_log_volume_alone(local: Bench, root: Path) -> None:
    """Counted by the emulated volumes: what the logs write is on theirs, and reads of tables are not."""
    item = f"emulated:ebs-gp3?size=10GiB&dir={root}"
    ended = run_on(local, f"data:{item},log:{item}", *WRITES, AT_FULL_SPEED, "dataset.rows=20000")
    assert ended.code in live_run.FINISHED, ended.output
    result = only_result(local)
    series = read_series(local.directory.cell_dir(result.cell_id) / "series.parquet")

    def mean(source: str, metric: str, entity: str = "") -> float:
        start, end = result.steps[0].window_s
        column = series[SeriesKey(source=source, metric=metric, entity=entity)]
        inside = (column.t_s > start) & (column.t_s <= end)
        return float(column.value[inside].mean())

    binlog_mib = mean("performance_schema", "file_write_mib_per_s", "binlog")
    assert mean("emulator@log", "write_mib_per_s") >= 0.8 * binlog_mib > 0
    assert mean("emulator@log", "reads_per_s") < 1 + 0.02 * mean("emulator@log", "writes_per_s")
    facts = result.layout[0].volume_facts
    assert (facts.emulated_profile, result.volume_facts.emulated_profile) == ("ebs-gp3", "ebs-gp3")
    assert facts.emulated_parameters == result.volume_facts.emulated_parameters
