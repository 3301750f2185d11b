"""What a run in a cluster costs, against a calculation by hand with the prices of suites/prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.errors import Refused, UsageError
from volbench.measure.session.planner import Planned, make_plan
from volbench.measure.session.price import RunPrice, check_cost, price_line, price_run
from volbench.measure.session.servers import TargetRequest
from volbench.results.credits.prices import load_prices

SUITE = Path(__file__).parents[4] / "suites" / "quick.yaml"
GP3, IO2 = "storage-class:volbench-ebs-gp3?size=100Gi", "storage-class:fast?size=200Gi"
M5 = "selector=node.kubernetes.io/instance-type=m5.large"

SETTINGS = ["replacements=0", "comparison.until=all_cells"]
"""Cells that can run at once, of which none is repeated."""


def planned(*volumes: str, options: tuple[str, ...] = ()) -> Planned:
    texts = [f"{name}={text}" for name, text in zip("ab", volumes, strict=False)]
    return make_plan(SUITE, texts, TargetRequest(target="kubernetes", options=options), settings=SETTINGS)


def price(*volumes: str, options: tuple[str, ...] = ()) -> RunPrice:
    run = planned(*volumes, options=options)
    return price_run(run.run, run.cost, load_prices())


def test_a_run_is_priced_as_by_hand() -> None:
    """m5.large 0.096 an hour; gp3 100 GiB at 0.08; io2 200 GiB at 0.125 and 1,000 IOPS at 0.065; 730 h."""
    result = price(GP3, IO2, options=(M5, "b.profile=ebs-io2?iops=1000"))
    by_hand = 0.096 + 100 * 0.08 / 730 + (200 * 0.125 + 1000 * 0.065) / 730
    assert result.total == pytest.approx(by_hand * result.hours)
    assert result.unpriced == ()
    assert "list prices of us-east-1, read 2026-11, some of them not read at the vendor" in price_line(result)


def test_a_users_claim_costs_nothing_more_and_what_has_no_price_is_named() -> None:
    result = price("pvc:mine", "storage-class:fast?size=10Gi")
    assert result.total == 0.0
    node, volume = result.unpriced
    assert "node_price=" in node
    assert volume.startswith("volume b: no price of class fast (--target-option b.profile=")


def test_each_kind_of_node_is_priced_and_parallel_cells_have_several() -> None:
    result = price("pvc:x", "pvc:y", options=("node_price=1", "b.node_price=3"))
    assert result.total == pytest.approx(4.0 * result.hours)
    result = price("pvc:x", "pvc:y", options=("node_price=1", "parallel=2"))
    assert result.total == pytest.approx(2.0 * result.hours)


def test_nodes_that_measure_at_once_cost_more_for_less_time() -> None:
    """Three nodes with a volume each for a third of the time, or one after the other: the same money."""
    one_by_one = price(GP3, options=(M5, "nodes=3"))
    at_once = price(GP3, options=(M5, "nodes=3", "parallel=3"))
    assert at_once.total == pytest.approx(one_by_one.total)
    assert at_once.hours == pytest.approx(one_by_one.hours / 3)
    assert "3 nodes m5.large" in price_line(at_once)
    assert "3 of volume a (ebs-gp3)" in price_line(at_once)


def test_volumes_that_are_measured_at_once_cost_two_nodes_for_half_the_time() -> None:
    """More lanes than volumes are none: cells of one volume follow each other."""
    one_by_one = price("pvc:x", "pvc:y", options=("node_price=1",))
    at_once = price("pvc:x", "pvc:y", options=("node_price=1", "parallel=2"))
    assert at_once.hours == pytest.approx(one_by_one.hours / 2)
    assert at_once.total == pytest.approx(one_by_one.total)
    assert price("pvc:x", "pvc:y", options=("node_price=1", "parallel=9")).hours == pytest.approx(at_once.hours)


def test_a_cap_refuses_what_costs_more_or_is_not_known() -> None:
    result = price("pvc:x", options=("node_price=2",))
    check_cost(result, result.total)
    with pytest.raises(Refused, match="more than"):
        check_cost(result, 0.0001)
    with pytest.raises(Refused, match="cost is not known"):
        check_cost(price("pvc:x"), 100.0)


def test_options_of_volumes_that_the_run_has_not_are_refused() -> None:
    with pytest.raises(UsageError, match="no volume 'c'"):
        planned("pvc:x", options=("c.node_price=1",))
