"""Recordings of one load with more and more clients: what they tell together of the volume.

Texts are made of given levels. LEVELS are medians of the recordings in series36/res04 of the public repository
hgxl64/mariadb-benchmarks (sysbench 0.5, read-write, a Fusion-io card, iostat -mx 5): clients, operations/s, ms of
one, share of writes. Its texts have no licence, so they are not copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from evidence_texts import Second, iostat, jitter, limited
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.results.explain.recordings.directory import RecordedExplanation, explain_recorded

LEVELS = (
    (1, 5413, 0.30, 0.28),
    (4, 19001, 0.26, 0.19),
    (16, 39715, 0.42, 0.178),
    (32, 43099, 0.68, 0.167),
    (64, 43620, 1.21, 0.164),
    (128, 44179, 1.76, 0.162),
    (256, 39446, 1.70, 0.164),
    (512, 33576, 2.02, 0.19),
)
AT_PLATEAU = {32, 64, 128}
LIMITS = {"storage.iops_limit", "storage.throughput_limit"}


def text(
    rate: float,
    wait_ms: float,
    writes: float = 0.0,
    *,
    busy: float = 30.0,
    kib: float = 16.0,
    host: str = "db1",
    clock: str = "",
    seconds: int = 40,
) -> str:
    rows = [
        Second(
            reads=rate * (1 - writes) * jitter(number, 0.004),
            writes=rate * writes * jitter(number, 0.004),
            read_ms=wait_ms * jitter(number + 3, 0.01),
            write_ms=wait_ms,
            kib=kib,
            busy=busy,
        )
        for number in range(seconds)
    ]
    return iostat(rows, host=host, clock=clock)


def log(threads: int, tps: float) -> str:
    return "".join(
        f"[ {second}s ] thds: {threads} tps: {tps:.2f} qps: 1.00 lat (ms,95%): 5.00 err/s: 0.00\n"
        for second in range(1, 41)
    )


def written(directory: Path, levels: Sequence[tuple[int, float, float, float]], name: str, **more: object) -> Path:
    for clients, rate, wait_ms, writes in levels:
        file = directory / name.format(clients)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(rate, wait_ms, writes, **more))  # type: ignore[arg-type]
    return directory


def at_plateau(result: RecordedExplanation) -> set[str]:
    return {name for sweep in result.sweeps for name in sweep.at_plateau}


def causes_of_sweeps(result: RecordedExplanation) -> set[str]:
    return {finding.cause for sweep in result.sweeps for finding in sweep.findings}


@pytest.mark.parametrize("name", ["iostat.rw.{}.res", "iostat_t{}.txt", "{}clients/iostat.txt", "threads-{}.log"])
def test_the_recordings_at_the_plateau_are_named_and_none_below_or_beyond(tmp_path: Path, name: str) -> None:
    directory = written(tmp_path, LEVELS, name)
    if name.startswith("iostat.rw"):
        for clients, rate, _, _ in LEVELS:
            (directory / f"sysbench.rw.{clients}.res").write_text(log(clients, rate / 24))
    result = explain_recorded(directory)
    assert at_plateau(result) == {name.format(clients) for clients in AT_PLATEAU}
    assert causes_of_sweeps(result) == LIMITS
    first = result.findings[0]
    assert first.evidence[0].value == pytest.approx(44179, rel=0.01)
    texts = [row.text for row in first.evidence if row.metric == "level"]
    assert len(texts) == len(LEVELS)
    assert [": at the plateau" in one for one in texts] == [level[0] in AT_PLATEAU for level in LEVELS]
    assert sum("something else holds them" in one for one in texts) == 2


def test_a_sweep_that_ends_before_the_plateau_names_nothing(tmp_path: Path) -> None:
    result = explain_recorded(written(tmp_path, LEVELS[:4], "iostat_t{}.txt"))
    (sweep,) = result.sweeps
    assert sweep.findings == ()
    assert "the rate is the highest where the queue is the longest (32 clients" in sweep.notes[0]


def flat(rates: Mapping[int, tuple[float, float]]) -> tuple[tuple[int, float, float, float], ...]:
    return tuple((clients, rate, wait_ms, 0.0) for clients, (rate, wait_ms) in rates.items())


def test_a_plateau_of_the_cpus_or_the_client_is_not_the_volumes(tmp_path: Path) -> None:
    """More clients queue elsewhere: rate, time of an operation and the volume's queue stay."""
    levels = flat({8: (2600, 0.9), 16: (5000, 1.0), 32: (9800, 1.02), 64: (10000, 1.03), 128: (10010, 1.03)})
    (sweep,) = explain_recorded(written(tmp_path, levels, "iostat_t{}.txt")).sweeps
    assert sweep.findings == ()
    assert "something else holds the clients" in sweep.notes[0]


LIMITED = {4: (2000, 2.0), 8: (3000, 2.6), 16: (3002, 5.3), 32: (3001, 10.6), 64: (2999, 21.3)}


def test_saturated_cpus_leave_it_open(tmp_path: Path) -> None:
    named = explain_recorded(written(tmp_path / "a", flat(LIMITED), "iostat_t{}.txt")).sweeps[0]
    assert {finding.cause for finding in named.findings} == LIMITS
    (sweep,) = explain_recorded(written(tmp_path / "b", flat(LIMITED), "iostat_t{}.txt", busy=91.0)).sweeps
    assert sweep.findings == ()
    assert "the CPUs were saturated" in sweep.notes[0]


def test_another_mix_or_size_of_operations_is_another_load(tmp_path: Path) -> None:
    levels = flat(LIMITED)
    for number, (clients, rate, wait_ms, _) in enumerate(levels):
        (tmp_path / f"iostat_t{clients}.txt").write_text(text(rate, wait_ms, kib=16.0 + 8 * number))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert sweep.findings == ()
    assert "the load differs" in sweep.notes[0]


def test_a_stretch_above_the_level_refutes_it(tmp_path: Path) -> None:
    written(tmp_path, flat(LIMITED), "iostat_t{}.txt")
    more = [Second(reads=4500, read_ms=3.0, busy=30.0)] * 6 + [Second(reads=3000, read_ms=10.6, busy=30.0)] * 34
    (tmp_path / "iostat_t32.txt").write_text(iostat(more, clock=""))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert sweep.findings == ()
    assert "the volume served more" in sweep.notes[0]


def test_an_unsteady_rate_is_no_level(tmp_path: Path) -> None:
    written(tmp_path, flat(LIMITED), "iostat_t{}.txt")
    swings = [Second(reads=(900, 3000, 3300)[number % 3], read_ms=10.0, busy=30.0) for number in range(40)]
    (tmp_path / "iostat_t32.txt").write_text(iostat(swings, clock=""))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert sweep.findings == ()


def test_a_device_with_idle_time_is_at_no_limit(tmp_path: Path) -> None:
    """Batches make a long queue for a while; in between nothing is asked of the device."""
    written(tmp_path, flat(LIMITED), "iostat_t{}.txt")
    for file in tmp_path.iterdir():
        file.write_text(file.read_text().replace(" 100.00\n", "  60.00\n"))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert sweep.findings == ()
    assert "the device had time in which nothing was asked of it (the device was busy 60 %" in sweep.notes[0]


def test_two_hosts_are_two_sweeps(tmp_path: Path) -> None:
    """Three of each would be a plateau of nobody if they were put together."""
    for clients, (rate, wait_ms) in LIMITED.items():
        for host, faster in (("db1", 1.0), ("db2", 3.0)):
            (tmp_path / f"{host}-t{clients}.txt").write_text(text(rate * faster, wait_ms / faster, host=host))
    result = explain_recorded(tmp_path)
    assert sorted((sweep.sweep.host, len(sweep.levels)) for sweep in result.sweeps) == [("db1", 5), ("db2", 5)]


def test_files_of_several_machines_without_a_name_are_no_sweep(tmp_path: Path) -> None:
    for number, (rate, wait_ms) in enumerate(LIMITED.values(), start=1):
        body = text(rate, wait_ms).split("\n", 1)[1]
        (tmp_path / f"node{number}.txt").write_text(body)
    assert explain_recorded(tmp_path).sweeps == ()


def test_without_a_number_of_clients_the_queue_orders_the_recordings(tmp_path: Path) -> None:
    for name, (rate, wait_ms) in zip(("mon", "tue", "wed", "thu", "fri"), LIMITED.values(), strict=True):
        (tmp_path / f"iostat-{name}.txt").write_text(text(rate, wait_ms))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert sweep.sweep.axis == "none"
    assert sweep.at_plateau == {f"iostat-{name}.txt" for name in ("tue", "wed", "thu", "fri")}


def test_the_clients_log_tells_the_threads_where_the_name_does_not(tmp_path: Path) -> None:
    for name, (clients, (rate, wait_ms)) in zip("edcba", LIMITED.items(), strict=True):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "iostat.txt").write_text(text(rate, wait_ms))
        (directory / "sysbench.log").write_text(log(clients, rate / 20))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert [(level.load, level.tps) for level in sweep.levels] == [
        (clients, pytest.approx(rate / 20, abs=0.01)) for clients, (rate, _) in LIMITED.items()
    ]
    assert "e/iostat.txt" not in sweep.at_plateau
    assert len(sweep.at_plateau) == 4


def test_recordings_of_one_time_are_no_sweep(tmp_path: Path) -> None:
    clock = "%m/%d/%Y %I:%M:%S %p"
    result = explain_recorded(written(tmp_path, flat(LIMITED), "iostat_t{}.txt", clock=clock))
    assert result.sweeps == ()


def test_an_array_whose_driver_counts_no_waits_has_the_queue_of_its_disks(tmp_path: Path) -> None:
    def array(rate: float, wait_ms: float) -> str:
        rows = [Second(reads=rate / 2, read_ms=wait_ms, busy=30.0)] * 40
        whole, disk = Second(reads=rate, read_ms=0.0, busy=30.0), Second(reads=rate / 2, read_ms=wait_ms)
        return iostat(rows, device="sda", clock="", more_devices=(("sdb", disk), ("md0", whole)))

    for clients, (rate, wait_ms) in LIMITED.items():
        (tmp_path / f"iostat_t{clients}.txt").write_text(array(rate, wait_ms))
    (sweep,) = explain_recorded(tmp_path).sweeps
    assert sweep.device == "md0"
    assert sweep.levels[-1].in_flight == pytest.approx(64, rel=0.01)
    assert len(sweep.at_plateau) == 4


def test_a_limit_that_more_clients_exceed_is_not_named(tmp_path: Path) -> None:
    """16 clients of an even rate look like a limit by themselves, until 32 get twice as much."""
    directory = tmp_path / "sweep"
    directory.mkdir()
    (directory / "iostat_t16.txt").write_text(iostat(limited(3000, 90), clock=""))
    alone = explain_recorded(directory / "iostat_t16.txt")
    assert {finding.cause for finding in alone.findings} & LIMITS
    (directory / "iostat_t8.txt").write_text(text(1500, 4.0))
    (directory / "iostat_t32.txt").write_text(text(6000, 8.0))
    timeline = next(
        one for one in explain_recorded(directory).timelines if "iostat_t16.txt" in one.timeline.recordings
    )
    assert not {finding.cause for finding in timeline.findings} & LIMITS
    assert any("is not named: 3,0" in note and "with 32 clients" in note for note in timeline.notes)


def test_json_and_page_have_the_sweep(tmp_path: Path) -> None:
    directory, page = written(tmp_path / "files", flat(LIMITED), "iostat_t{}.txt"), tmp_path / "page.html"
    output = CliRunner().invoke(app, ["explain", "--from", str(directory), "--json", "--html", str(page)])
    assert output.exit_code == 0, output.output
    data = json.loads(output.stdout)
    (sweep,) = data["sweeps"]
    assert sweep["at_plateau"] == ["iostat_t16.txt", "iostat_t32.txt", "iostat_t64.txt", "iostat_t8.txt"]
    assert data["findings"][0]["cause"] == "storage.iops_limit"
    assert "a sweep of 5 recordings" in page.read_text()
    lines = CliRunner().invoke(app, ["explain", "--from", str(directory)]).stdout
    assert "the volume gives 3,00" in lines


def test_disks_whose_operations_are_not_the_arrays_say_nothing_of_its_queue(tmp_path: Path) -> None:
    """A mirror writes twice, and another user may use a disk: then the queue of the array is not known."""
    for clients, (rate, wait_ms) in LIMITED.items():
        whole = Second(writes=rate, read_ms=0.0, write_ms=0.0, busy=30.0)
        disk = Second(writes=rate, write_ms=wait_ms)
        rows = [Second(writes=rate, write_ms=wait_ms, busy=30.0)] * 40
        body = iostat(rows, device="sda", clock="", more_devices=(("sdb", disk), ("md0", whole)))
        (tmp_path / f"iostat_t{clients}.txt").write_text(body)
    result = explain_recorded(tmp_path, device="md0")
    (sweep,) = result.sweeps
    assert sweep.findings == ()
    assert "md0 has waiting times in 0 of them" in sweep.notes[0]
