"""What every sampler keeps to: absent is a reason and never a zero, names are catalogued, no rate is negative."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.core.records.sources import SAMPLED, SOURCES
from volbench.measure.sample.cgroup import cgroup_io
from volbench.measure.sample.cgroup.cgroup_io import CgroupIoAccount
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.device.ebs_nvme import EbsNvmeSampler, admin_command
from volbench.measure.sample.device.mountstats import MountStats
from volbench.measure.sample.interface import Presence, Reading, Sampler, Unavailable, Values
from volbench.measure.sample.parsers import performance_schema as parse
from volbench.measure.sample.parsers.diskstats import parse_diskstats
from volbench.measure.sample.parsers.ebs_csi import parse_exposition
from volbench.measure.sample.parsers.emulator import parse_counters
from volbench.measure.sample.parsers.innodb import parse_status
from volbench.measure.sample.server.performance_schema import STATEMENT_BUCKET
from volbench.measure.sample.sources import SAMPLERS, lanes_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sample"
NOWHERE = SamplingConfig(raw_file="unused", zero_monotonic_ns=0)
ON_EVERY_LINUX = {"cpu", "vm", "psi"}


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def kernel_values(source: str) -> Values:
    """A reading of this machine, by the sampler itself."""
    (sampler,) = (sampler for lane in lanes_of(NOWHERE) for sampler in lane.samplers if sampler.source == source)
    if not sampler.probe().present:
        pytest.skip(f"{source} is not there")
    values = sampler.read()
    sampler.close()
    return values


def disk_values() -> Values:
    counters = parse_diskstats(text("diskstats-20-columns.txt"))["vda"]
    return {(name, "vda"): value for name, value in asdict(counters).items()}


def mount_values() -> Values:
    sampler = MountStats("/mnt/my data", FIXTURES / "mountstats.txt")
    values = sampler.read()
    sampler.close()
    return {**values, ("operations", "OF_A_LATER_KERNEL"): 5}


def cgroup_values() -> Values:
    counters = {
        (name, who): 5 for who in ("sda", "server") for name in ("reads", "writes", "read_bytes", "write_bytes")
    }
    return {**counters, **{(metric, "server"): 5 for metric, _ in cgroup_io.LIMITS.values()}}


def cgroup_cpu_values() -> Values:
    return {(name, "server"): 5 for name in ("used_us", "periods", "throttled", "throttled_us")}


def cgroup_memory_values() -> Values:
    names = ("used_bytes", "limit_bytes", "high_events", "max_events", "reclaimed_pages", "refaults")
    return {(name, "server"): 5 for name in names}


def ebs_values() -> Values:
    """An emulated volume keeps the same counters; the log page adds bins of latency."""
    emulated = parse_counters(text("emulator-counters.json").encode())
    volume = {name for name, entity in emulated if not entity} - {
        "uptime_s",
        "waited_us",
        "judged",
        "late",
        "lateness_us",
    }
    values: Values = {(name, "nvme1n1"): 7 for name in volume}
    return values | {(f"{method}_bin {lower} {lower * 2}", "nvme1n1"): 3 for method in "rw" for lower in (1, 2, 4)}


def schema_values() -> Values:
    columns = json.loads(text("mysql-9.7.json"))["columns"]
    values: Values = {("connection", ""): 1, ("statements", ""): 5, ("statement_ps", ""): 5}
    values |= {("statement_lock_ps", ""): 1, ("statement_errors", ""): 0, (STATEMENT_BUCKET, "3"): 5}
    for kind, sums in parse.sums_by_class(columns["files"], parse.FILE_CLASSES, "other").items():
        values |= {(f"file_{name}", kind): n for name, n in zip(parse.FILE_FIELDS, sums, strict=True)}
    for kind, sums in parse.sums_by_class(columns["background"], parse.FILE_CLASSES, None).items():
        values["background_ps", kind] = sums[1]
    for kind, sums in parse.sums_by_class(columns["waits"], parse.WAIT_CLASSES, None).items():
        values["wait_ps", kind] = sums[1]
    for name in ("count", "ps", "lock_ps", "cpu_ps"):
        values[f"digest_{name}", "aa SELECT `c` FROM `sbtest1`"] = 5
    return values


def status_values() -> Values:
    values: Values = {("connection", ""): 1}
    for server in ("mysql-9.7", "mariadb-10.11"):
        recorded = json.loads(text(f"{server}.json"))["status"]
        values |= {(name, ""): value for name, value in parse_status(map(tuple, recorded)).items()}
    return values


def recorded_values(path: Path) -> Values:
    """A recorded reading: rows of name, entity and value."""
    return {(name, entity): value for name, entity, value in json.loads(path.read_text())}


READINGS: dict[str, Callable[[], Values]] = {
    "diskstats": disk_values,
    "mountstats": mount_values,
    "cgroup_io": cgroup_values,
    "cgroup_cpu": cgroup_cpu_values,
    "cgroup_memory": cgroup_memory_values,
    "psi": lambda: kernel_values("psi"),
    "cpu": lambda: kernel_values("cpu"),
    "vm": lambda: kernel_values("vm"),
    "ebs_nvme": ebs_values,
    "ebs_csi": lambda: parse_exposition(text("ebs-csi-metrics.txt"), "vol-0123456789abcdef0"),
    "performance_schema": schema_values,
    "innodb": status_values,
    "tasks": lambda: {
        (name, entity): 5.0
        for name in ("cpu_s", "delay_s")
        for entity in ("server", "client", "cell", "sampler", "emulator")
    },
    "emulator": lambda: parse_counters(text("emulator-counters.json").encode()),
}
READINGS |= {
    path.stem.removeprefix("reading-"): partial(recorded_values, path) for path in FIXTURES.glob("reading-*.json")
}
every_sampler = pytest.mark.parametrize("source", sorted(SAMPLERS))


def rows(source: str, before: Values, after: Values, dt_s: float = 1.0) -> list[tuple[str, str, float]]:
    rates = SAMPLERS[source].rates(Reading(t_s=3.0, values=before), Reading(t_s=3.0 + dt_s, values=after))
    listed = list(rates)
    assert all((row.source, row.t_s) == (source, 3.0 + dt_s) for row in listed)
    return [(row.metric, row.entity, row.value) for row in listed]


def grown(values: Values, by: int = 3) -> Values:
    return {key: value if key[0] == "connection" else value + by for key, value in values.items()}


def test_every_sampler_is_catalogued_and_has_a_recorded_reading() -> None:
    assert SAMPLERS.keys() == SAMPLED.keys() == READINGS.keys()


@every_sampler
def test_a_source_that_is_not_there_says_why(source: str) -> None:
    """No disk, mount, group, device, server or socket is named: absent with a reason, and a reading is no zero."""
    (sampler,) = (sampler for lane in lanes_of(NOWHERE) for sampler in lane.samplers if sampler.source == source)
    result = sampler.probe()
    if SOURCES[source].role == "host" and result.present:
        sampler.close()
        return
    assert result == Presence(present=False, reason=result.reason)
    assert len(result.reason.split()) > 2
    with pytest.raises(Unavailable):
        sampler.read()
    sampler.close()


@every_sampler
def test_two_equal_readings_give_no_negative_and_no_waiting_time(source: str) -> None:
    values = READINGS[source]()
    result = rows(source, values, values)
    assert all(value >= 0 and math.isfinite(value) for _, _, value in result)
    assert not [name for name, _, _ in result if name.endswith("_await_ms")]


@every_sampler
def test_every_name_is_catalogued_with_a_unit(source: str) -> None:
    values = READINGS[source]()
    result = rows(source, values, grown(values))
    assert result
    for name, _, value in result:
        assert SAMPLED[source][name].unit
        assert value >= 0
        assert math.isfinite(value)


@every_sampler
def test_every_catalogued_name_comes_out_of_a_full_reading(source: str) -> None:
    """A metric that nothing yields would be a promise without a measurement."""
    if source in ON_EVERY_LINUX:
        pytest.skip("does not apply: what this machine's kernel counts decides")
    values = READINGS[source]()
    assert {name for name, _, _ in rows(source, values, grown(values))} == set(
        SAMPLED[source]
    ) - NOT_IN_FIXTURES.get(source, set())


NOT_IN_FIXTURES = {
    "innodb": {
        "metadata_lock_current_waits",  # of sessions that stand still: unit/measure/sample/test_server_sources.py
        "buffer_pool_write_requests_per_s",  # recorded before: unit/measure/sample/test_innodb_counters.py
        "flow_control_paused_ratio",  # of Galera and semi-sync only: unit/measure/sample/test_innodb_counters.py
        "semi_sync_wait_s_per_s",
    },
    "performance_schema": {  # read of observed servers only: tests/unit/measure/sample/test_own_account.py
        "query_rows_examined_per_s",
        "query_rows_sent_per_s",
        "query_rows_affected_per_s",
        "query_tmp_disk_tables_per_s",
        "program_connections",
    },
}


@every_sampler
def test_units_are_last_in_names(source: str) -> None:
    endings: dict[str, str | tuple[str, ...]] = {
        "1/s": ("_per_s", "_iops"),
        "s/s": "_s_per_s",
        "MiB/s": "_mib_per_s",
        "KiB": "_kib",
        "MiB": "_mib",
        "%": "_percent",
    }
    for name, metric in SAMPLED[source].items():
        assert name.removesuffix("_max").endswith(endings.get(metric.unit, "")), name
        assert ("_ms" in name) == (metric.unit == "ms"), name
        assert metric.text


@every_sampler
def test_no_row_without_time(source: str) -> None:
    values = READINGS[source]()
    assert rows(source, values, grown(values), dt_s=0.0) == []


@every_sampler
def test_an_empty_reading_has_no_rows(source: str) -> None:
    """A source that vanished and came back without a counter is no zero."""
    values = READINGS[source]()
    assert rows(source, values, {}) == []
    assert [row for row in rows(source, {}, values) if row[0].endswith("_per_s")] == []


@every_sampler
@given(data=st.data())
def test_counters_that_went_back_are_never_negative_rates(source: str, data: st.DataObject) -> None:
    values = READINGS[source]()
    keys = sorted(values)
    lowered = data.draw(st.sets(st.sampled_from(keys)))
    after = {key: 0 if key in lowered else value for key, value in grown(values).items()}
    assert all(value >= 0 for _, _, value in rows(source, values, after))


def test_the_nvme_command_is_what_the_kernel_wants() -> None:
    """struct nvme_admin_cmd: 72 bytes; opcode 2, namespace 1, 4,096 bytes, page 0xD0 and 1,024 dwords."""
    command = admin_command(0x1122334455667788)
    assert len(command) == 72
    assert command[0] == 2
    assert struct.unpack_from("<I", command, 4) == (1,)
    assert struct.unpack_from("<Q", command, 24) == (0x1122334455667788,)
    assert struct.unpack_from("<I", command, 36) == (4096,)
    assert struct.unpack_from("<I", command, 40) == (0xD0 | 1024 << 16,)


def test_a_device_that_is_no_nvme_is_absent_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "not-a-device"
    file.write_bytes(b"")
    sampler = EbsNvmeSampler([str(file)])
    result = sampler.probe()
    sampler.close()
    assert not result.present
    assert "not-a-device: no EBS statistics" in result.reason


def test_samplers_are_what_the_protocol_says() -> None:
    sampler: Sampler = CgroupIoAccount(None)
    assert sampler.source in SAMPLERS
