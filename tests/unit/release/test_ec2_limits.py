"""The table of instances' limits: read from a copy of the vendor's document, and as it is in the suite."""

from __future__ import annotations

import pytest

from release.ec2_limits import rows
from volbench.core.profile.files import INSTANCES, load_profile
from volbench.core.profile.instances import ec2_type

COPY = """|Instance type|Baseline / Maximum bandwidth (Mbps)|Maximum throughput|Maximum IOPS|NVMe|x|
|---|---|---|---|---|---|
|M5||||||
|1 m5.large|650.00 / 4750.00|81.25 / 593.75|3600.00 / 18750.00|✓|default|
|m5d.12xla rge|9500.00|1187.50|40000.00|✓|default|
|m6gd.medi 1 um|315.00 / 4750.00|39.38 / 593.75|2500.00 / 20000.00|✓|default|
|m5dn.2xla 1 rge|2300.00 / 4750.00|287.50 / 593.75|12000.00 / 18750.00|✓|default|
|m7i.metal -24xl|30000.00|3750.00|120000.00|✓|default|
|m5.large|1.00|1.00|1.00|✓|default|
|m9.large|650.00|593.75|3600.00|✓|default|
|1 m7a.large|0.781 / 12.5|✗|✓|✗|1|3|10|✓|
"""


def test_rows_are_read_whatever_breaks_their_names() -> None:
    assert list(rows(COPY)) == [
        ("m5.large", 3600, 18750, 81.25, 593.75),
        ("m5d.12xlarge", 40000, 40000, 1187.5, 1187.5),
        ("m6gd.medium", 2500, 20000, 39.38, 593.75),
        ("m5dn.2xlarge", 12000, 18750, 287.5, 593.75),
        ("m7i.metal-24xl", 120000, 120000, 3750, 3750),
    ]


RUN_TOGETHER = (
    "Instance sizeBaseline bandwidth (Mbps)Maximum IOPS (16 KiB I/O)m5.large 1650475081.25593.75360018750m5.4xlarge"
    " 24750593.7518750m6idn.large 1156225000195.313125.006250100000t3.nano 14320855.38260.6225011800"
    "c3.xlarge50062.54000i3en.large 1576475072.10593.75300020000m9.large 165047509.25593.75360018750"
    "m9.xlarge 247506.2518750\n"
)


def test_cells_that_nothing_divides_are_divided_by_what_the_columns_check() -> None:
    assert list(rows(RUN_TOGETHER)) == [
        ("m5.large", 3600, 18750, 81.25, 593.75),
        ("m5.4xlarge", 18750, 18750, 593.75, 593.75),
        ("m6idn.large", 6250, 100000, 195.31, 3125),
        ("t3.nano", 250, 11800, 5.38, 260.62),
        ("c3.xlarge", 4000, 4000, 62.5, 62.5),
        ("i3en.large", 3000, 20000, 72.1, 593.75),
    ]


@pytest.mark.parametrize(
    ("instance", "iops", "mb_per_s"),
    [
        ("r4.xlarge", 6000, 106.25),
        ("db.r6g.large", 3600, 78.75),
        ("db.m5.24xlarge", 80000, 2375.0),
        ("t3.medium", 2000, 43.38),
        ("db.r8g.large", 3600, 78.75),
        ("m8gb.48xlarge", 1440000, 37500.0),
        ("i7ie.3xlarge", 15000, 468.75),
        ("p2.xlarge", 6000, 93.75),
    ],
)
def test_the_suite_has_the_vendor_s_classes(instance: str, iops: float, mb_per_s: float) -> None:
    table = load_profile(INSTANCES).table
    assert len(table) > 1150
    figures = table[ec2_type(instance)]
    assert figures["instance_iops"].number == iops
    assert figures["instance_throughput"].number == pytest.approx(mb_per_s * 1e6)
    assert "2026-04" in figures["instance_iops"].source


def test_no_instance_has_a_maximum_below_its_baseline() -> None:
    for figures in load_profile(INSTANCES).table.values():
        for name in ("instance_iops", "instance_throughput"):
            assert 0 < figures[name].number <= figures[f"{name}_max"].number
