"""The choice: the cheapest volume that is sure to keep a goal, what refutes it, and when nothing is recommended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from volbench.errors import UsageError
from volbench.results.credits.prices import Prices, load_prices
from volbench.results.recommend.catalogue import Candidate, candidates
from volbench.results.recommend.choice import SAVING_MAX, recommend
from volbench.results.recommend.evidence import IndependentCheck, Setting
from volbench.results.recommend.goal import SURE_MIN, Chance, Goal, chance_below
from volbench.results.report.recommendation import sentences

GOAL = Goal(p95_s=0.02)
GP3 = candidates(load_prices(), size_bytes=100 << 30, profiles=("ebs-gp3",))


@dataclass(frozen=True, kw_only=True)
class Stated:
    """Evidence whose chances and checks are stated by the volume's IOPS."""

    keeps: Mapping[int, float]
    checked: Mapping[int, bool | None] = field(default_factory=dict)
    name: str = "stated"
    notes: tuple[str, ...] = ()

    def chances(self, candidate: Candidate, goal: Goal) -> tuple[Chance, ...]:
        del goal
        shares = [share for iops, share in self.keeps.items() if iops <= int(candidate.options["iops"])]
        return (Chance(objective="p95", keeps=max(shares, default=0.0), text="stated"),)

    def checks(self, candidate: Candidate, goal: Goal) -> Sequence[IndependentCheck]:
        del goal
        remaining = self.checked.get(int(candidate.options["iops"]))
        return (IndependentCheck(name="stated", keeps=remaining, text="as stated"),)

    def settings(self, candidate: Candidate, goal: Goal) -> tuple[Setting, ...]:
        del candidate, goal
        return ()

    def measurement(self, candidate: Candidate) -> str:
        return f"measure {candidate.spec}"


def test_the_cheapest_volume_that_is_sure_is_chosen_and_the_next_cheaper_one_is_named() -> None:
    answer = recommend(Stated(keeps={5000: 0.1, 6000: 0.97}), GP3, GOAL)
    assert answer.chosen is not None
    assert answer.chosen.candidate.options["iops"] == "6000"
    assert answer.cheaper is not None
    assert answer.cheaper.candidate.cost.month < answer.chosen.candidate.cost.month
    assert answer.is_cheapest
    assert not answer.measurement


def test_a_volume_that_a_check_refutes_is_not_chosen() -> None:
    answer = recommend(Stated(keeps={6000: 0.97}, checked={6000: False}), GP3, GOAL)
    assert answer.chosen is not None
    assert int(answer.chosen.candidate.options["iops"]) > 6000
    assert all(item.candidate.options["iops"] == "6000" for item in answer.refuted)


def test_forecast_and_check_that_always_differ_give_no_answer() -> None:
    every = {int(item.options["iops"]): False for item in GP3}
    answer = recommend(Stated(keeps={3000: 0.99}, checked=every), GP3, GOAL)
    assert answer.chosen is None
    assert "contradict" in answer.refusal


def test_a_cheaper_volume_that_may_do_is_told_with_what_would_decide() -> None:
    answer = recommend(Stated(keeps={5000: 0.5, 6000: 0.97}), GP3, GOAL)
    assert answer.chosen is not None
    assert not answer.is_cheapest
    assert answer.cheaper is not None
    assert answer.measurement == f"measure {answer.cheaper.candidate.spec}"


def test_a_check_that_holds_on_a_cheaper_volume_takes_the_word_cheapest_away() -> None:
    cheaper = {int(item.options["iops"]): True for item in GP3}
    answer = recommend(Stated(keeps={6000: 0.97}, checked=cheaper), GP3, GOAL)
    assert answer.chosen is not None
    assert not answer.is_cheapest


@pytest.mark.parametrize("verdict", [False, None])
def test_a_check_that_refutes_a_cheaper_volume_is_told_next_to_its_chance(verdict: bool | None) -> None:
    every = {int(item.options["iops"]): verdict for item in GP3 if int(item.options["iops"]) < 6000}
    answer = recommend(Stated(keeps={5000: 0.5, 6000: 0.97}, checked=every), GP3, GOAL)
    text = "\n".join(sentences(answer, load_prices()))
    assert "A cheaper one may do" in text
    told = "A check contradicts that, and says that it breaks the objective: as stated."
    assert (told in text) == (verdict is False)


def test_a_forecast_that_is_too_wide_to_buy_by_is_refused() -> None:
    answer = recommend(Stated(keeps={3000: 0.6, 20_000: 0.97}), GP3, GOAL)
    assert answer.chosen is None
    assert "too wide" in answer.refusal
    assert answer.measurement
    assert SAVING_MAX > 1


def test_no_volume_that_is_sure_is_no_recommendation() -> None:
    answer = recommend(Stated(keeps={3000: SURE_MIN - 0.01}), GP3, GOAL)
    assert answer.chosen is None
    assert answer.cheaper is not None
    assert answer.measurement


@pytest.mark.parametrize("name", ["ceph-rbd", "efs-elastic", "ebs-gp33"])
def test_a_type_without_a_price_or_of_files_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as refusal:
        candidates(load_prices(), size_bytes=1 << 30, profiles=(name,))
    assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("local-nvme", "leaves out its instance"),
        ("efs-elastic", "a file system on the network"),
        ("ebs-2016", "has no price"),
    ],
)
def test_a_type_that_cannot_be_bought_says_why(name: str, reason: str) -> None:
    with pytest.raises(UsageError) as refusal:
        candidates(load_prices(), size_bytes=1 << 30, profiles=(name,))
    assert reason in refusal.value.what
    assert "ebs-gp3" in refusal.value.evidence


def prices_of(path: Path, *lines: str) -> Prices:
    """A user's own file of prices, a line for each profile."""
    heading = ("schema: 1", "dated: today", "region: here", "currency: EUR", "instances: {}", "volumes:")
    path.write_text("\n".join([*heading, *(f"  {line}" for line in lines)]))
    return load_prices(path)


def price_of(parameter: str) -> str:
    return f"{{parameter: {parameter}, price: 0.1, source: own, assumed: false}}"


@pytest.mark.parametrize("profiles", [(), ("ebs-gp3",)])
def test_a_price_that_leaves_out_what_is_provisioned_is_refused(tmp_path: Path, profiles: tuple[str, ...]) -> None:
    """IOPS without a price would seem free, and the largest volume the cheapest."""
    prices = prices_of(tmp_path / "own.yaml", f"ebs-gp3: [{price_of('size')}, {price_of('throughput')}]")
    with pytest.raises(UsageError, match="part for its iops"):
        candidates(prices, size_bytes=1 << 30, profiles=profiles)


def test_prices_of_no_block_volume_are_refused_with_what_they_are_of(tmp_path: Path) -> None:
    prices = prices_of(tmp_path / "own.yaml", f"efs-elastic: [{price_of('stored')}]", f"mine: [{price_of('size')}]")
    with pytest.raises(UsageError, match="no block volume has a price") as refusal:
        candidates(prices, size_bytes=1 << 30)
    assert "efs-elastic is a file system" in refusal.value.evidence


def test_candidates_are_what_a_vendor_offers_and_hold_the_data() -> None:
    offered = candidates(load_prices(), size_bytes=10 << 30)
    assert [item.cost.month for item in offered] == sorted(item.cost.month for item in offered)
    assert all(row.volume.size_bytes >= 10 << 30 for row in offered)
    assert {"ebs-gp2", "ebs-gp3", "ebs-io2"} <= {item.profile for item in offered}
    # 500 IOPS per GiB: a volume of 10 GiB grows with its IOPS.
    assert max(int(item.options["iops"]) for item in offered if item.profile == "ebs-gp3") == 80_000


def test_the_chance_is_a_half_at_the_middle_and_sure_beyond_the_ends() -> None:
    assert chance_below(20.0, (10.0, 40.0)) == pytest.approx(0.5)
    assert chance_below(40.0, (10.0, 40.0)) == pytest.approx(0.975, abs=0.001)
    assert chance_below(40.0, (10.0, 40.0), widened=1.5) < 0.92
    assert chance_below(5.0, (5.0, 5.0)) == 1.0
