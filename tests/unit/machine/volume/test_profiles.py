"""Volume profiles: the vendors' arithmetic, the SPEC's parameters, and where every number comes from."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volbench.core.profile.files import COMMON, INSTANCES, load_profile, profile_names, profiles_directory
from volbench.core.profile.formula import evaluate
from volbench.core.profile.resolve import resolve
from volbench.core.profile.schema import Profile
from volbench.errors import UsageError

EXPECTED = {
    "ceph-rbd",
    "ebs-2016",
    "ebs-gp2",
    "ebs-gp3",
    "ebs-io2",
    "ebs-sc1",
    "ebs-st1",
    "efs-2016",
    "efs-bursting",
    "efs-elastic",
    "fargate-efs",
    "fsx-openzfs",
    "local-nvme",
    "snapshot-lazy-load",
}


def limit(name: str, options: dict[str, str], expected: str) -> dict[str, Any]:
    return next(limit for limit in resolve(name, options).model["limits"] if limit["name"] == expected)


def limit_names(name: str, options: dict[str, str]) -> set[str]:
    return {limit["name"] for limit in resolve(name, options).model["limits"]}


def test_every_profile_is_there_and_resolves_with_defaults() -> None:
    assert set(profile_names()) == EXPECTED
    for name in profile_names():
        resolved = resolve(name)
        assert resolved.title
        assert resolved.size_bytes > 0
        assert resolved.model["limits"], name
        assert (resolved.filesystem == "xfs") == (resolved.mode == "block")


@pytest.mark.parametrize(
    ("size", "baseline", "burst_s", "refill_s"),
    [
        ("20GiB", 100, 1862, 54_000),
        ("50GiB", 150, 1895, 36_000),
        ("100GiB", 300, 2000, 18_000),
        ("334GiB", 1002, 2703, 5389),
        ("750GiB", 2250, 7200, 2400),
    ],
)
def test_gp2_has_the_vendor_s_baseline_burst_and_refill(
    size: str, baseline: int, burst_s: int, refill_s: int
) -> None:
    bucket = limit("ebs-gp2", {"size": size}, "volume.credits")
    cap = limit("ebs-gp2", {"size": size}, "volume.iops")["rate_per_s"]
    assert cap == 3000
    assert bucket["rate_per_s"] == baseline
    assert round(bucket["burst"] / (cap - baseline)) == burst_s
    assert round(bucket["burst"] / baseline) == refill_s


def test_gp2_from_1000_gib_on_has_no_credits() -> None:
    assert "volume.credits" not in limit_names("ebs-gp2", {"size": "1000GiB"})
    assert limit("ebs-gp2", {"size": "10TiB"}, "volume.iops")["rate_per_s"] == 16_000


def test_gp2_throughput_steps_at_170_gib() -> None:
    small = limit("ebs-gp2", {"size": "170GiB"}, "volume.throughput")["rate_per_s"]
    large = limit("ebs-gp2", {"size": "334GiB"}, "volume.throughput")["rate_per_s"]
    assert (small / 2**20, large / 2**20) == (128, 250)


def test_credits_and_time_scale_of_the_spec_reach_the_daemon() -> None:
    options = {"size": "50GiB", "credits": "2%", "time_scale": "100", "seed": "7"}
    assert limit("ebs-gp2", options, "volume.credits")["fill"] == pytest.approx(0.02)
    model = resolve("ebs-gp2", options).model
    assert (model["time_scale"], model["seed"]) == (100, 7)


def test_gp3_s_parameters_have_the_vendor_s_bounds() -> None:
    assert limit("ebs-gp3", {"iops": "6000", "throughput": "500"}, "volume.iops")["rate_per_s"] == 6000
    for options in ({"iops": "90000"}, {"iops": "2000"}, {"throughput": "1000"}, {"size": "10GiB", "iops": "6000"}):
        with pytest.raises(UsageError, match="gp3 volume has"):
            resolve("ebs-gp3", options)


def test_an_instance_stands_in_series_with_its_burst() -> None:
    options = {"instance": "m5.large"}
    bucket = limit("ebs-gp3", options, "instance.iops_credits")
    assert bucket["scope"] == "instance"
    assert (bucket["rate_per_s"], bucket["burst"]) == (3600, (18_750 - 3600) * 1800)
    assert limit("ebs-gp3", options, "instance.throughput")["rate_per_s"] == 593.75e6
    assert limit("ebs-gp3", options, "instance.throughput_credits")["rate_per_s"] == 81.25e6
    assert "instance.iops_credits" not in limit_names("ebs-gp3", {"instance": "m5.4xlarge"})


def test_fsx_async_is_not_durable_and_its_metadata_is_free_of_disk_ios() -> None:
    synchronous, asynchronous = resolve("fsx-openzfs"), resolve("fsx-openzfs", {"mode": "async"})
    assert (synchronous.durability, asynchronous.durability) == ("write_back", "async")
    weights = [resolved.model["limits"][0]["weights"]["change"] for resolved in (synchronous, asynchronous)]
    assert weights == [1, 0]
    assert limit("fsx-openzfs", {"size": "64GiB"}, "volume.iops")["rate_per_s"] == 192


def test_ceph_writes_wait_for_the_slowest_replica_and_load_all_of_them() -> None:
    model = resolve("ceph-rbd", {"replicas": "2", "osds": "12"}).model
    assert model["latency"]["write"]["parts"][2]["max_of"] == 2
    assert model["limits"][0]["spread"] == {
        "over": 12,
        "object_bytes": 4 << 20,
        "read_copies": 1,
        "write_copies": 2,
    }
    with pytest.raises(UsageError, match="at most osds"):
        resolve("ceph-rbd", {"replicas": "4", "osds": "3"})


def test_a_disk_of_a_cluster_is_a_volume_with_its_own_credits() -> None:
    model = resolve("ceph-rbd", {"osds": "12", "osd": "ebs-gp2?size=150GiB", "write_ios": "2"}).model
    limits = {limit["name"]: limit for limit in model["limits"]}
    assert set(limits) == {"osd.iops", "osd.credits", "osd.throughput"}
    assert (limits["osd.credits"]["rate_per_s"], limits["osd.credits"]["spread"]["over"]) == (450, 12)
    assert [limits[name]["weights"]["write"] for name in ("osd.iops", "osd.throughput")] == [2, 1]
    assert model["latency"]["read"]["parts"][1]["median_us"] == 800  # the gp2's own
    for wrong in ("ebs-gp9", "efs-bursting", "ebs-gp2?size=5 parsecs"):
        with pytest.raises(UsageError, match="osd="):
            resolve("ceph-rbd", {"osd": wrong})


def test_a_failed_disk_takes_a_copy_and_its_share_and_as_many_as_replicas_take_the_data() -> None:
    def spread(replicas: str) -> dict[str, int]:
        return dict(resolve("ceph-rbd", {"replicas": replicas, "failed": "1"}).model["limits"][0]["spread"])

    assert (spread("3")["over"], spread("3")["write_copies"]) == (2, 2)
    assert (spread("2")["over"], spread("2")["write_copies"]) == (2, 2)
    with pytest.raises(UsageError, match="objects are lost"):
        resolve("ceph-rbd", {"replicas": "2", "failed": "2"})


def test_read_ahead_and_mount_are_the_client_s() -> None:
    assert resolve("fargate-efs").read_ahead_kib == 128
    assert resolve("efs-elastic", {"read_ahead_kb": "15360"}).read_ahead_kib == 15360
    assert resolve("ebs-gp3").read_ahead_kib is None
    assert [resolve("fsx-openzfs", {"mount": mount}).client_sync for mount in ("async", "sync")] == [False, True]


def test_a_snapshot_stands_on_any_block_profile_with_its_parameters() -> None:
    options = {"base": "ebs-gp2", "size": "50GiB"}
    assert limit("snapshot-lazy-load", options, "volume.credits")["rate_per_s"] == 150
    touch = resolve("snapshot-lazy-load", options).model["first_touch"]
    assert (touch["extent_bytes"], touch["chunk_bytes"]) == (50 << 30, 512 << 10)
    for base in ("efs-elastic", "snapshot-lazy-load", "common"):
        with pytest.raises(UsageError):
            resolve("snapshot-lazy-load", {"base": base})


def test_efs_s_elastic_throughput_replaces_the_bucket() -> None:
    assert "volume.credits" in limit_names("efs-bursting", {})
    assert "volume.credits" not in limit_names("efs-elastic", {})
    assert limit("efs-bursting", {"stored": "1TiB"}, "volume.credits")["rate_per_s"] == 50 << 20


def test_a_p99_becomes_the_lognormal_s_sigma() -> None:
    piece = resolve("ebs-gp3").model["latency"]["read"]["parts"][0]
    assert piece["median_us"] * math.exp(2.3263478740408408 * piece["sigma"]) == pytest.approx(1500)


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("ebs-gp5", {}, "perhaps you meant 'ebs-gp"),
        ("ebs-gp2", {"siez": "1GiB"}, "perhaps you meant 'size"),
        ("ebs-gp2", {"size": "5 parsecs"}, "is not a size"),
        ("ebs-gp2", {"credits": "200%"}, "between 0 and 1"),
        ("ebs-gp2", {"instance": "m5.larg"}, "perhaps you meant 'm5.large"),
        ("ebs-gp2", {"filesystem": "ntfs"}, "xfs, ext4"),
        ("efs-elastic", {"filesystem": "ext4"}, "vendor's file system"),
        ("ebs-gp2", {"time_scale": "0"}, "time_scale"),
        ("fsx-openzfs", {"iops": "nan"}, "iops=nan"),
        ("common", {}, "not a complete profile"),
    ],
)
def test_a_wrong_spec_is_refused_with_a_hint(name: str, options: dict[str, str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(name, options)
    assert hint in str(caught.value)


def test_every_figure_says_where_it_comes_from_and_guesses_are_called_so() -> None:
    for name in (*profile_names(), COMMON, INSTANCES):
        profile = load_profile(name)
        rows = [profile.figures, *profile.table.values()]
        for key, figure in (pair for row in rows for pair in row.items()):
            assert figure.source, (name, key)
            assert figure.unit, (name, key)
            assert "://" not in figure.source, (name, key)
            guess = any(term in figure.source for term in ("guess", "from memory", "volbench:"))
            assert figure.assumed or not guess, (name, key)


REPORTS = {
    "fargate-efs-cold-read",
    "efs-small-files",
    "fsx-async-writes",
    "gp2-credit-exhaustion",
    "rook-ceph-replicas",
}
"""The suites that repeat a field report, whose figures no profile may have: the suite would show them anyway."""
FROM_THE_REPORT = re.compile(r"(?i)field report|that report|the report|fitted|\bthe post\b")


def test_no_figure_comes_from_the_report_that_a_suite_reproduces() -> None:
    for name in (*profile_names(), COMMON, INSTANCES):
        profile = load_profile(name)
        for row in (profile.figures, *profile.table.values()):
            for key, figure in row.items():
                assert not FROM_THE_REPORT.search(figure.source), (name, key, figure.source)


@pytest.mark.parametrize("suite", sorted(REPORTS))
def test_a_suite_that_reproduces_a_report_sets_figures_only_with_a_source(suite: str) -> None:
    """A figure set in a SPEC is a figure too: the suite's comment above the volumes names its source."""
    text = (profiles_directory().parent / f"{suite}.yaml").read_text(encoding="utf-8")
    volumes = yaml.safe_load(text)["volumes"]
    for spec in volumes.values():
        options = dict(pair.split("=", 1) for pair in spec.partition("?")[2].split("&") if pair)
        for key in options.keys() & {"round_trip_us", "commit_us", "write_us", "network", "read_ahead_kb"}:
            assert re.search(rf"(?m)^#.*\b{key}\b", text), (suite, spec, key)


def formulas_of(value: object) -> list[str]:
    """Every formula of a profile: the texts of its limits, latencies and named formulas."""
    if isinstance(value, dict):
        return [text for key, item in value.items() if key not in WORDS for text in formulas_of(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in formulas_of(item)]
    return [value] if isinstance(value, str) else []


WORDS = {"name", "scope", "resource", "unit", "published", "text", "title", "source", "durability"}


@pytest.mark.parametrize("name", [*sorted(EXPECTED), COMMON, INSTANCES])
def test_formulas_hold_no_numbers_of_their_own(name: str) -> None:
    """A number in a formula would have no source: only 0 and 1 are allowed."""
    profile: Profile = load_profile(name)
    data = profile.model_dump()
    pieces = [data[key] for key in ("formulas", "limits", "latency", "first_touch", "checks") if data[key]]
    for formula in formulas_of(pieces):
        numbers = {
            node.value for node in ast.walk(ast.parse(formula, mode="eval")) if isinstance(node, ast.Constant)
        }
        assert {number for number in numbers if isinstance(number, int | float)} <= {0, 1}, formula


def test_a_broken_profile_is_shown_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("schema: 1\nname: mine\nlimts: []\n")
    with pytest.raises(UsageError) as caught:
        load_profile("mine", tmp_path)
    assert "mine.yaml:3" in str(caught.value)


def test_profiles_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (profiles_directory() / "ebs-gp2.yaml").is_file()


@pytest.mark.parametrize(
    "formula",
    ["__import__('os')", "(1).real", "[1]", "a.b", "lambda: 1", "min(x=1)", "1 if", "2 ** 9", "1 < 2 < 3"],
)
def test_formulas_are_arithmetic_only(formula: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        evaluate(formula, {})


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1, 1e6))
def test_clamp_lies_between_its_bounds(x: float, a: float, b: float) -> None:
    low, high = sorted((a, b))
    result = evaluate("clamp(x, low, high)", {"x": x, "low": low, "high": high})
    assert isinstance(result, float)
    assert low <= result <= high


def test_a_text_is_no_number_and_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="is a text"):
        evaluate("mode * 2", {"mode": "sync"})
    with pytest.raises(ValueError, match="perhaps you meant size"):
        evaluate("sizes", {"size": 1.0})
    with pytest.raises(ValueError, match="division"):
        evaluate("1 / zero", {"zero": 0.0})


@pytest.mark.parametrize(("stored", "bucket_tib"), [("100GiB", 2.1), ("1TiB", 2.1), ("4TiB", 8.4)])
def test_the_bucket_of_efs_grows_above_a_tebibyte(stored: str, bucket_tib: float) -> None:
    assert limit("efs-bursting", {"stored": stored}, "volume.credits")["burst"] == pytest.approx(bucket_tib * 2**40)
