"""No volume may be made of the figures of the report that a suite repeats: values are compared, not words.

A profile with the report's own speed, called a guess, would show the report's figure anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from volbench.core.profile.files import COMMON, load_profile, profile_names
from volbench.core.profile.schema import Profile
from volbench.core.records.base import parse_size_bytes

NEAR = 0.02
MEASURED: dict[str, dict[float, str]] = {
    "bytes per s": {
        469_179_049 / 6.696: "EFS under Fargate, 2023",
        468_097_705 / 0.265: "EBS on a managed node, 2023",
        61.3e6: "dd to EBS, 2016",
        58.1e6: "dd to EFS, 2016",
        800e6 / 5: "copy to EBS, 2023",
        800e6 / 100: "copy to FSx with async, 2023",
    },
    "us": {
        870: "await before the credits were gone, 2017",
        1_300: "await before the credits were gone, 2017",
        173_000: "await, 2017",
        430_000: "await, 2017",
        998_000: "await, 2017",
        1e6 * 17 * 60 / 38_000: "a file with NFS 4, 2023",
        1e6 * 15 * 60 / 38_000: "a file with NFS 3, 2023",
        1e6 * 14 * 60 / 38_000: "a file with 960 IOPS, 2023",
        1e6 * 100 / 38_000: "a file with async, 2023",
    },
    "IOPS": {
        38_000 / (17 * 60): "files a second with NFS 4, 2023",
        38_000 / 100: "files a second with async, 2023",
        40: "CloudWatch without async, 2023",
        360: "CloudWatch with async, 2023",
    },
}
"""By unit: what an author measured. What an author set or a vendor publishes (3,000 IOPS) is no such figure."""
SOURCES: dict[tuple[str, str], str] = {
    ("fsx-openzfs", "throughput_default"): "160 MiB/s is a size of the vendor's, which the author bought too",
}
"""(profile, figure) that is near a measured one, and has a source of its own."""
Figure = tuple[str, str, str, float]


def in_base_units(value: object, unit: str) -> tuple[str, float] | None:
    """A figure's dimension and its value in MEASURED's unit; None for other dimensions."""
    number = float(value) if isinstance(value, int | float) else float(parse_size_bytes(value))
    factors = {"bytes per s": 1.0, "MiB per s": float(1 << 20), "MB per s": 1e6}
    if unit in factors:
        return "bytes per s", number * factors[unit]
    times = {"us": 1.0, "ms": 1e3, "s": 1e6}
    if unit in times:
        return "us", number * times[unit]
    return ("IOPS", number) if unit in ("IOPS", "op units per s") else None


def figures(name: str, profile: Profile) -> Iterator[Figure]:
    for row in (profile.figures, *profile.table.values()):
        for key, figure in row.items():
            if (known_names := in_base_units(figure.value, figure.unit)) is not None:
                yield name, key, *known_names


def near(rows: Iterator[Figure]) -> list[str]:
    """What is within 2 % of a measured figure, and has no source of its own."""
    return [
        f"{name}: {key} is that of {subject}"
        for name, key, dimension, value in rows
        for measured, subject in MEASURED[dimension].items()
        if abs(value / measured - 1) <= NEAR and (name, key) not in SOURCES
    ]


def test_no_figure_of_a_profile_is_one_that_an_author_measured() -> None:
    names = (*profile_names(), COMMON)  # the instances' table is the vendor's whole, see release/ec2_limits.py
    rows = [row for name in names for row in figures(name, load_profile(name))]
    assert len(rows) > 60
    assert near(iter(rows)) == []


def test_every_exception_is_needed() -> None:
    rows = {(name, key) for name in profile_names() for name, key, *_ in figures(name, load_profile(name))}
    assert set(SOURCES) <= rows


@pytest.mark.parametrize(
    ("value", "unit"),
    [("66.8MiB", "bytes per s"), (66.8, "MiB per s"), (0.88, "ms"), (26_900.0, "us"), (365, "IOPS")],
)
def test_a_report_s_figure_is_found_whatever_it_is_called(value: object, unit: str) -> None:
    known_names = in_base_units(value, unit)
    assert known_names is not None
    assert near(iter([("efs-elastic", "guess", *known_names)]))
