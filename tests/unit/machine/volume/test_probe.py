"""The probe's arithmetic: fio's answers, falls, expected figures, nearest profiles, and the fitted profile."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.cli.volumes.text import probe_notes
from volbench.core.base import ownership
from volbench.core.profile.files import profile_names, whole_profile
from volbench.core.profile.resolve import resolve
from volbench.core.profile.spec import parse_volume
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite, Refused, StepFailed, UsageError
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.probe.assumed import assumed_figures
from volbench.machine.volume.probe.figures import FIGURES, expected_figures, rate_per_s
from volbench.machine.volume.probe.files import measure_files
from volbench.machine.volume.probe.fio import JobResult, parse_iops_log, parse_result
from volbench.machine.volume.probe.fit import check_destination, fitted_profile
from volbench.machine.volume.probe.judgement import RateDrop, find_fall, is_throttled_alone
from volbench.machine.volume.probe.measurement import DIRECTORY, Probe, check_seconds, measure
from volbench.machine.volume.probe.nearest import distance, nearest_profiles, unseen

DAY = datetime.date(2026, 1, 31)
GP3 = {
    "read_4k_ms": 0.75,
    "read_4k_ms_p99": 1.6,
    "write_4k_ms": 0.72,
    "write_4k_ms_p99": 1.5,
    "read_16k_ms": 0.76,
    "write_16k_ms": 0.73,
    "fdatasync_ms": 0.002,
    "fdatasync_ms_p99": 0.01,
    "read_iops": 3010.0,
    "write_iops": 3003.0,
    "read_mib_per_s": 125.4,
    "write_mib_per_s": 125.1,
    "create_ms": 0.02,
    "open_ms": 0.003,
    "unlink_ms": 0.01,
}


def probe_of(
    figures: Mapping[str, float],
    *,
    fall: RateDrop | None = None,
    filesystem: str = "xfs",
    late_share: float | None = None,
) -> Probe:
    facts = VolumeFacts(path="/mnt/x", filesystem=filesystem, size_bytes=50 << 30)
    return Probe(
        spec="path:/mnt/x",
        facts=facts,
        figures=figures,
        fall=fall,
        direct=True,
        file_bytes=1 << 30,
        seconds=60.0,
        operations=1000,
        moved_bytes=1 << 30,
        unsaturated=(),
        uneven={},
        late_share=late_share,
    )


def test_no_profile_is_fitted_to_a_busy_machine() -> None:
    probe = replace(probe_of(GP3), delayed={"randread of 4 KiB, depth 32": 0.5}, foreign_cpu_ratio=0.9)
    with pytest.raises(StepFailed, match="too busy") as raised:
        fitted_profile(probe, "mine", on=DAY)
    assert "randread of 4 KiB, depth 32" in raised.value.evidence


def fio_answer(side: str = "read", **changes: Any) -> str:
    """fio 3.33's JSON, but for what is not read."""
    busy = {
        "io_bytes": 409600,
        "total_ios": 100,
        "iops": 50.0,
        "clat_ns": {"percentile": {"50.000000": 700416, "99.000000": 1499136}},
    }
    idle = {"io_bytes": 0, "total_ios": 0, "iops": 0.0, "clat_ns": {"min": 0}}
    job = {"error": 0, "read": idle, "write": idle, "sync": {"total_ios": 0, "lat_ns": {"min": 0}}, side: busy}
    return json.dumps({"fio version": "fio-3.33", "jobs": [{**job, **changes}]})


def test_fio_s_answer_becomes_numbers_of_our_units() -> None:
    """Warnings before the JSON are passed over; nanoseconds become milliseconds; no sync is None, not 0."""
    result = parse_result("fio: some warning\n" + fio_answer(), "randread", log="500, 48, 0, 4096, 0\n")
    assert (result.operations, result.moved_bytes, result.iops) == (100, 409600, 50.0)
    assert (result.latency_ms, result.latency_ms_p99) == pytest.approx((0.700416, 1.499136))
    assert result.sync_ms is None
    assert result.iops_series == ((0.5, 48.0),)


def test_fdatasync_is_told_beside_the_write() -> None:
    sync = {"total_ios": 9, "lat_ns": {"percentile": {"50.000000": 1_700_000, "99.000000": 5_000_000}}}
    result = parse_result(fio_answer("write", sync=sync), "write")
    assert (result.sync_ms, result.sync_ms_p99) == (1.7, 5.0)


@pytest.mark.parametrize("text", ["", "{}", "not json {", fio_answer(error=5), fio_answer("write")])
def test_an_answer_without_operations_is_a_failed_step(text: str) -> None:
    with pytest.raises(StepFailed):
        parse_result(text, "randread")


def test_a_typical_half_second_is_not_moved_by_a_stall() -> None:
    log = "".join(
        f"{500 * number}, {rate}, 1, 4096, 0\n" for number, rate in enumerate([3000, 3001, 0, 0, 3000, 2999, 3000])
    )
    assert parse_result(fio_answer(), "randread", log=log).iops_typical == 3000
    assert parse_result(fio_answer(), "randread").iops_typical == 50.0
    assert parse_iops_log("broken\n") == ()


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([3000.0] * 12, None),
        ([3000.0, 2900.0] * 6, None),
        ([3000.0] * 4, None),  # too short to tell
        ([3000.0] * 6 + [150.0] * 6, (3000.0, 150.0, 3.0)),
        ([3000.0] * 6 + [0.0] + [3000.0] * 5, None),  # a stall is no end of a burst
    ],
)
def test_a_burst_that_ends_is_seen(rates: list[float], expected: tuple[float, float, float] | None) -> None:
    series = tuple((0.5 * number, rate) for number, rate in enumerate(rates))
    fall = find_fall("read_iops", series)
    assert (None if fall is None else (fall.first, fall.last, fall.after_s)) == expected


@pytest.mark.parametrize(
    ("profile", "options", "figures"),
    [
        ("ebs-gp3", {}, {"read_4k_ms": 0.7, "write_iops": 3000, "read_mib_per_s": 125}),
        ("ebs-gp3", {"iops": "16000", "throughput": "1000"}, {"write_iops": 16000, "read_mib_per_s": 1000}),
        ("ebs-gp2", {"size": "500GiB"}, {"read_iops": 3000, "read_mib_per_s": 250}),
        ("efs-bursting", {}, {"read_mib_per_s": 300, "write_mib_per_s": 100, "write_iops": 7000, "open_ms": 1.2}),
        ("ceph-rbd", {}, {"read_iops": 9000, "write_iops": 1500, "read_mib_per_s": 750}),  # 3 gp2 of 600 GiB
    ],
)
def test_expected_figures_are_the_vendor_s(
    profile: str, options: dict[str, str], figures: dict[str, float]
) -> None:
    expected = expected_figures(resolve(profile, options))
    assert {name: expected[name] for name in figures} == pytest.approx(figures)


def test_a_queue_of_64_completes_no_more_than_its_latency_allows() -> None:
    """Little's law: local NVMe without a limit that binds."""
    resolved = resolve("local-nvme", {"iops": "10000000", "throughput": "100000"})
    assert expected_figures(resolved)["read_iops"] == pytest.approx(64 / 90e-6)


def test_without_credits_a_gp2_has_its_baseline() -> None:
    resolved = resolve("ebs-gp2", {"size": "50GiB"})
    assert rate_per_s(resolved, "read", 4096, depth=64) == 3000
    assert rate_per_s(resolved, "read", 4096, depth=64, credit=False) == 150


def test_what_is_assumed_is_traced_through_formulas_and_defaults() -> None:
    def assumed(name: str) -> frozenset[str]:
        return assumed_figures(resolve(name), whole_profile(name))

    assert assumed("ebs-gp3") == {"read_4k_ms", "read_16k_ms", "write_4k_ms", "write_16k_ms"}
    assert {"read_iops", "read_mib_per_s"} <= assumed("ceph-rbd")
    assert not {"write_4k_ms", "write_mib_per_s"} & assumed("efs-bursting")


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_s_figures_are_known_kinds(name: str) -> None:
    assert expected_figures(resolve(name)).keys() <= FIGURES.keys()
    assert assumed_figures(resolve(name), whole_profile(name)) <= expected_figures(resolve(name)).keys()


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "snapshot-lazy-load"])
def test_a_profile_is_nearest_to_itself(name: str) -> None:
    nearest = nearest_profiles(expected_figures(resolve(name)))
    alike = {
        alternative.profile.profile
        for alternative in nearest
        if alternative.distance == pytest.approx(0.0, abs=1e-9)
    }
    assert name in alike
    assert alike <= {name, "efs-bursting", "fargate-efs"}  # Fargate's EFS has the same figures


@given(st.floats(0.01, 100), st.floats(1.01, 50))
def test_distance_is_that_of_ratios_in_both_directions(value: float, factor: float) -> None:
    names = ("read_iops", "write_iops", "read_4k_ms")
    fromkeys, second = dict.fromkeys(names, value), dict.fromkeys(names, value * factor)
    assert distance(fromkeys, second) == pytest.approx(distance(second, fromkeys))
    assert distance(fromkeys, fromkeys) == 0.0


def test_too_few_shared_figures_have_no_distance() -> None:
    assert distance({"read_iops": 1.0, "write_iops": 1.0}, {"read_iops": 1.0, "write_iops": 1.0}) is None


def test_a_guessed_latency_does_not_outweigh_a_published_limit() -> None:
    """gp3's 125 MiB/s decide, though the measured latency is between gp2's guess and gp3's."""
    assert nearest_profiles({**GP3, "read_4k_ms": 0.78, "write_4k_ms": 0.78})[0].profile.profile == "ebs-gp3"


def test_credits_that_are_still_full_are_named() -> None:
    (gp2,) = (near for near in nearest_profiles(GP3) if near.profile.profile == "ebs-gp2")
    (sentence,) = unseen(gp2)
    assert "5,400,000 I/Os" in sentence
    assert "3,000 to 300 IOPS" in sentence


def test_a_fitted_profile_gives_what_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(fitted_profile(probe_of(GP3), "mine", on=DAY))
    resolved = resolve(str(file))
    assert resolved.profile == "mine"
    assert (resolved.mode, resolved.durability, resolved.size_bytes) == ("block", "write_through", 50 << 30)
    expected = expected_figures(resolved)
    assert {name: GP3[name] for name in expected} == pytest.approx(expected, rel=0.03)
    own = whole_profile(str(file)).figures
    assert own["iops"].source == "measured by volbench volume probe on 2026-01-31"
    assert not own["iops"].assumed
    assert not own["read_p99"].assumed


def test_an_asymmetric_volume_that_flushes_is_fitted_with_weights_flush_and_stream(tmp_path: Path) -> None:
    measured = {
        **GP3,
        "write_iops": 1000.0,
        "write_mib_per_s": 60.0,
        "fdatasync_ms": 1.7,
        "fdatasync_ms_p99": 5.0,
        "read_16k_ms": 0.95,
    }
    file = tmp_path / "mine.yaml"
    file.write_text(fitted_profile(probe_of(measured), "mine", on=DAY))
    resolved = resolve(str(file))
    assert resolved.durability == "write_back"
    assert resolved.model["latency"]["flush"]["parts"][0]["median_us"] == 1700
    expected = expected_figures(resolved)
    assert {name: measured[name] for name in expected} == pytest.approx(expected, rel=0.03)


def test_a_burst_is_fitted_as_credits(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    fall = RateDrop(figure="read_iops", first=3010.0, last=150.0, after_s=4.0)
    file.write_text(fitted_profile(probe_of(GP3, fall=fall), "mine", on=DAY))
    resolved = resolve(str(file), {"credits": "50%"})
    (limit,) = (limit for limit in resolved.model["limits"] if limit["credits"])
    assert (limit["rate_per_s"], limit["burst"], limit["fill"]) == (150.0, 11440, 0.5)
    assert whole_profile(str(file)).figures["credit_bucket"].assumed


def job_result(iops: float, latency_ms: float, latency_ms_p99: float) -> JobResult:
    return JobResult(
        operations=1000,
        moved_bytes=4096000,
        iops=iops,
        latency_ms=latency_ms,
        latency_ms_p99=latency_ms_p99,
        sync_ms=None,
        sync_ms_p99=None,
        iops_series=tuple((0.5 * tick, iops) for tick in range(1, 7)),
    )


def test_the_median_of_one_operation_at_a_time_inverted_is_no_rate() -> None:
    """A kernel's throttle at 800/s: most operations pass in 0.053 ms, some wait 90 ms; 1 / median is 18,690/s."""
    alone, many = job_result(800, 0.0535, 92.0), job_result(800, 40.0, 60.0)
    assert is_throttled_alone(alone, many)
    assert not is_throttled_alone(job_result(1400, 0.7, 1.5), job_result(3000, 10.0, 12.0))
    assert not is_throttled_alone(job_result(800, 1.2, 2.0), job_result(800, 40.0, 60.0))


def test_a_limit_that_one_operation_at_a_time_meets_is_fitted_once(tmp_path: Path) -> None:
    """The tail of its latency is the limit's wait: as the volume's, the throttle would be there twice."""
    throttled = {**GP3, "read_4k_ms": 0.0535, "read_4k_ms_p99": 92.0, "read_16k_ms": 0.055, "read_iops": 800.0}
    file = tmp_path / "mine.yaml"
    file.write_text(fitted_profile(replace(probe_of(throttled), throttled_alone=("read",)), "mine", on=DAY))
    figures = whole_profile(str(file)).figures
    assert figures["read_p99"].assumed
    assert float(figures["read_p99"].value) < 1000
    assert not figures["write_p99"].assumed
    notes = probe_notes(replace(probe_of(throttled), throttled_alone=("read",)), [])
    assert any("One read at a time met the limit" in note for note in notes)


def test_a_network_file_system_is_fitted_in_files_mode(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    measured = {**GP3, "open_ms": 1.2, "create_ms": 6.0, "unlink_ms": 2.7, "fdatasync_ms": 1.0}
    file.write_text(fitted_profile(probe_of(measured, filesystem="nfs4"), "mine", on=DAY))
    resolved = resolve(str(file))
    assert (resolved.mode, resolved.filesystem) == ("files", None)
    assert expected_figures(resolved)["open_ms"] == pytest.approx(1.2)
    assert resolved.attribute_ttl_s == 3.0
    assert whole_profile(str(file)).figures["trip_p99"].assumed


def test_a_profile_by_path_is_a_volume_of_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is made absolute, so that a run can be resumed from elsewhere."""
    (tmp_path / "mine.yaml").write_text(fitted_profile(probe_of(GP3), "mine", on=DAY))
    monkeypatch.chdir(tmp_path)
    spec = parse_volume("a=emulated:mine.yaml?size=2GiB")
    assert (spec.location, spec.options) == (str(tmp_path / "mine.yaml"), {"size": "2GiB"})
    assert resolve(spec.location, spec.options).size_bytes == 2 << 30
    with pytest.raises(UsageError, match=r"unknown volume profile|no parameter"):
        resolve(str(tmp_path / "other.yaml"))


def test_where_a_profile_may_be_written(tmp_path: Path) -> None:
    check_destination(tmp_path / "mine.yaml")
    for bad in ("mine.yml", "mine", "my profile.yaml", "no/mine.yaml"):
        with pytest.raises(UsageError):
            check_destination(tmp_path / bad)
    (tmp_path / "mine.yaml").write_text("mine")
    with pytest.raises(Refused):
        check_destination(tmp_path / "mine.yaml")


def test_small_files_are_counted_and_gone(tmp_path: Path) -> None:
    figures = measure_files(tmp_path, seconds=0.05)
    assert figures.keys() == {
        name for name in FIGURES if name.split("_")[0] in ("create", "stat", "open", "unlink")
    }
    assert all(value > 0 for value in figures.values())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", [0.0, 1.0, 1e6, float("nan")])
def test_a_probe_has_bounds(seconds: float) -> None:
    with pytest.raises(UsageError):
        check_seconds(seconds)


def opened(path: Path | None) -> OpenVolume:
    return OpenVolume(name="probe", spec=parse_volume("path:/x", name="probe"), host_path=path)


def test_a_volume_without_a_path_cannot_be_probed() -> None:
    with pytest.raises(MissingPrerequisite, match="path on this machine"):
        measure(opened(None), fio="fio", seconds=10, watch=str)


def test_a_foreign_directory_of_the_probe_s_name_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "thesis.tex").write_text("x")
    with pytest.raises(Refused):
        measure(opened(tmp_path), fio="fio", seconds=10, watch=str)
    assert (tmp_path / DIRECTORY / "thesis.tex").read_text() == "x"


def test_a_failing_fio_leaves_nothing_on_the_volume(tmp_path: Path) -> None:
    """What a killed probe has left is cleared too."""
    ownership.claim(tmp_path / DIRECTORY, purpose="probe")
    (tmp_path / DIRECTORY / "probe.dat").write_bytes(b"left")
    with pytest.raises(StepFailed, match="fio failed"):
        measure(opened(tmp_path), fio="false", seconds=10, watch=str)
    assert list(tmp_path.iterdir()) == []


def test_only_one_probe_at_a_time_measures_a_volume(tmp_path: Path) -> None:
    refusals: list[str] = []

    def probe_again(_phase: str) -> None:
        with pytest.raises(Refused, match="another probe"):
            measure(opened(tmp_path), fio="false", seconds=10, watch=str)
        refusals.append("refused")

    with pytest.raises(StepFailed):
        measure(opened(tmp_path), fio="false", seconds=10, watch=probe_again)
    assert refusals == ["refused"]
