"""Prices, and the smallest volume that would not run out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from credit_loads import load

from volbench.core.profile.files import profile_names, whole_profile
from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve
from volbench.errors import UsageError
from volbench.results.credits.balance import is_sustainable, served_by_caps
from volbench.results.credits.prices import load_prices, monthly_cost
from volbench.results.credits.sizing import alternatives, instances, size_parameter, smallest
from volbench.results.credits.work import from_points

GIB = 2**30
PRICES = load_prices()


def test_every_price_is_of_a_profile_s_parameter_and_says_where_it_comes_from() -> None:
    for profile, pieces in PRICES.volumes.items():
        assert profile in profile_names()
        for piece in pieces:
            assert piece.source
            assert piece.assumed or "from memory" not in piece.source
            named = {piece.parameter, piece.disks, piece.number, *piece.only} - {None}
            assert piece.traffic or named, (profile, piece)
            assert named <= set(whole_profile(profile).parameters), (profile, piece)


def test_only_what_lies_above_the_included_part_costs() -> None:
    """gp3: 100 GiB, 5,000 IOPS (2,000 above), 200 MiB/s (75 above)."""
    parameters = {"size": 100.0 * GIB, "iops": 5000.0, "throughput": 200.0}
    cost = monthly_cost(PRICES, "ebs-gp3", parameters, read_bytes_per_s=0, write_bytes_per_s=0)
    assert cost is not None
    assert cost.month == pytest.approx(100 * 0.08 + 2000 * 0.005 + 75 * 0.04)
    assert cost.assumed


def test_a_tiered_price_charges_each_tier_its_own() -> None:
    parameters = {"size": 100.0 * GIB, "iops": 70_000.0}
    cost = monthly_cost(PRICES, "ebs-io2", parameters, read_bytes_per_s=0, write_bytes_per_s=0)
    assert cost is not None
    assert cost.month == pytest.approx(12.5 + 32_000 * 0.065 + 32_000 * 0.0455 + 6_000 * 0.03185)


def test_what_a_size_includes_is_free() -> None:
    """FSx: 300 GiB include 900 IOPS, 100 more cost 0.60; 1,024 MB/s cost 266.24, as Amazon's list says."""
    parameters: dict[str, Any] = {
        "size": 300.0 * GIB,
        "iops": 1000.0,
        "throughput": 1024.0,
        "deployment": "single-az",
    }
    cost = monthly_cost(PRICES, "fsx-openzfs", parameters, read_bytes_per_s=0, write_bytes_per_s=0)
    assert cost is not None
    assert cost.month == pytest.approx(27.00 + 0.60 + 266.24)
    elsewhere = {**parameters, "deployment": "multi-az"}
    assert monthly_cost(PRICES, "fsx-openzfs", elsewhere, read_bytes_per_s=0, write_bytes_per_s=0) is None


def test_a_price_that_leaves_something_out_is_no_alternative() -> None:
    """A disk inside an instance is cheaper than any volume, and gone with the instance."""
    names = {alternative.profile for alternative in alternatives("ebs-gp2", {"size": "50GiB"}, load(3000), PRICES)}
    assert "ebs-gp3" in names
    assert names.isdisjoint({"local-nvme", "ceph-rbd"})


def test_a_volume_without_a_price_has_no_cost_rather_than_none_to_pay() -> None:
    assert monthly_cost(PRICES, "ebs-2016", {}, read_bytes_per_s=0, write_bytes_per_s=0) is None


def test_broken_prices_are_shown_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("schema: 1\ndated: x\nregion: y\ncurrency: z\nvolumes: {}\ninstances: {}\nprise: 3\n")
    with pytest.raises(UsageError, match=r"prices\.yaml:7"):
        load_prices(path)
    with pytest.raises(UsageError, match="no such price file"):
        load_prices(tmp_path / "none.yaml")


def test_3000_iops_for_ever_need_1000_gib_of_gp2_or_a_gp3_of_any_size() -> None:
    results = {
        alternative.profile: alternative
        for alternative in alternatives("ebs-gp2", {"size": "50GiB"}, load(3000), PRICES)
    }
    assert results["ebs-gp2"].size_bytes == 1000 * GIB
    assert results["ebs-gp3"].size_bytes == 50 * GIB
    assert results["ebs-gp3"].options["iops"] == "3000"
    assert "ebs-st1" not in results
    months = [item.cost.month for item in results.values() if item.cost]
    assert months == sorted(months)


def test_what_is_found_is_the_smallest_that_endures() -> None:
    for iops in (151, 1234, 2999):
        result = smallest("ebs-gp2", 50 * GIB, load(iops), PRICES)
        assert result is not None
        gib = result.size_bytes // GIB
        assert is_sustainable(limits_of(resolve("ebs-gp2", {"size": f"{gib}GiB"})), load(iops))
        assert not is_sustainable(limits_of(resolve("ebs-gp2", {"size": f"{gib - 1}GiB"})), load(iops))


def test_a_type_grows_to_its_largest_size_and_no_further() -> None:
    """16,000 IOPS need 5,334 GiB of gp2; 17,000 none has."""
    result = smallest("ebs-gp2", GIB, load(16_000), PRICES)
    assert result is not None
    assert result.size_bytes == 5334 * GIB
    assert smallest("ebs-gp2", GIB, load(17_000), PRICES) is None
    assert smallest("ebs-gp2", 17_000 * GIB, load(1), PRICES) is None


def test_throughput_of_gp3_is_bought_with_the_iops_that_it_needs() -> None:
    """1,000 MiB/s in MiB: at least 4,000 IOPS by its ratio."""
    result = smallest("ebs-gp3", 100 * GIB, load(1000, io_bytes=2**20), PRICES)
    assert result is not None
    assert (result.options["throughput"], result.options["iops"]) == ("1000", "4000")


def test_a_daily_burst_may_be_paid_from_credits() -> None:
    """20 minutes at 3,000 IOPS a day: 100 GiB of gp2 refill in time, so nothing larger is named."""
    rates = np.zeros(1440)
    rates[600:620] = 3000.0
    day = from_points(
        t_s=np.arange(1, 1441, dtype=np.float64) * 60.0, reads_per_s=rates, writes_per_s=np.zeros(1440)
    )
    result = smallest("ebs-gp2", 100 * GIB, day, PRICES)
    assert result is not None
    assert result.size_bytes == 100 * GIB
    assert served_by_caps(limits_of(resolve("ebs-gp2", {"size": "100GiB"})), day).min() == 1.0


def test_an_instance_is_named_by_its_baseline() -> None:
    assert [instance.instance for instance in instances(load(2000), PRICES)] == [
        "t3.medium",
        "m5.large",
        "m5d.large",
        "m5.4xlarge",
    ]
    assert [instance.instance for instance in instances(load(2001), PRICES)] == [
        "m5.large",
        "m5d.large",
        "m5.4xlarge",
    ]
    assert instances(load(20_000), PRICES) == []


@pytest.mark.parametrize(
    ("profile", "parameter"), [("ebs-gp2", "size"), ("ebs-sc1", "size"), ("efs-elastic", "stored")]
)
def test_the_size_of_a_profile_goes_by_its_own_name(profile: str, parameter: str) -> None:
    assert size_parameter(profile) == parameter


def test_a_type_without_a_price_is_sized_all_the_same() -> None:
    """Buckets that are shrunk for a test are shrunk for every candidate."""
    options = {"size": "64GiB", "mode": "async", "deployment": "multi-az"}
    result = alternatives("fsx-openzfs", options, load(500), PRICES)
    own = next(item for item in result if item.profile == "fsx-openzfs")
    assert own.cost is None
    assert own.options["mode"] == "async"
    scaled = alternatives("ebs-gp2", {"size": "50GiB", "time_scale": "60"}, load(3000), PRICES)
    assert {item.options.get("time_scale") for item in scaled} == {"60"}


def test_a_price_for_what_the_volume_does_not_have_is_refused() -> None:
    charges = tuple(charge.model_copy(update={"parameter": "iop"}) for charge in PRICES.volumes["ebs-gp3"])
    prices = PRICES.model_copy(update={"volumes": {"ebs-gp3": charges}})
    parameters = resolve("ebs-gp3", {}).parameters
    with pytest.raises(UsageError, match="'iop'"):
        monthly_cost(prices, "ebs-gp3", parameters, read_bytes_per_s=0, write_bytes_per_s=0)
