"""Caveats that differ by volume or by step only are one line with all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.records.cell import COUNTED_AS_SLOWEST, ENDED_BY_QUEUE, UNANSWERED
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import summarise
from volbench.results.report.build import build_report
from volbench.results.report.rows.verdict.adjustments import adjustment_caveats, pairs_text
from volbench.results.report.rows.verdict.caveats import losses_text
from volbench.results.stats.covariates import Adjustment

LONG = 6
"""Caveats of twelve volumes that are alike: each kind has one."""


def caveats(path: Path, *volumes: SyntheticVolume) -> tuple[str, ...]:
    return build_report(build_run(path, Synthetic(volumes=volumes, repeats=1))).summary.caveats


def test_twelve_emulated_volumes_have_one_caveat(tmp_path: Path) -> None:
    """25 of them stood above the tables."""
    profiles = [f"kind-{number}" for number in range(12)]
    scales = (1, 100, 100, *[1] * 9)
    volumes = [
        SyntheticVolume(
            name=name,
            facts={
                "disk": f"{name}1",
                "emulated_profile": kind,
                "emulated_parameters": {"time_scale": scale},
            },
        )
        for name, kind, scale in zip("abcdefghijkl", profiles, scales, strict=True)
    ]
    texts = caveats(tmp_path, *volumes)
    (emulated,) = [text for text in texts if "are emulated" in text]
    assert emulated.startswith("Volumes a (kind-0), b (kind-1), ")
    assert emulated.endswith(
        ", k (kind-10) and l (kind-11) are emulated: they imitate these kinds of storage and do not measure them."
    )
    scaled = (
        "Volumes b and c have credit buckets 100 times smaller than the real ones (time_scale): their bursts end"
    )
    assert [text for text in texts if "time_scale" in text] == [f"{scaled} so much sooner."]
    assert len(texts) <= LONG


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            {"memory_backed": True, "filesystem": "tmpfs"},
            "Volumes a and b are memory (tmpfs), not durable storage.",
        ),
        (
            {"overlay": True},
            "Volumes a and b are on an overlay filesystem: containers' layers, not volumes.",
        ),
        ({"nfs_server": "10.0.0.1"}, "Volumes a and b are NFS: their export decides whether a commit survives"),
    ],
)
def test_what_volumes_are_alike_in_is_said_of_them_together(
    tmp_path: Path, facts: dict[str, object], text: str
) -> None:
    texts = caveats(tmp_path, *(SyntheticVolume(name=name, facts=facts) for name in "ab"))
    assert [each for each in texts if each.startswith(text)] != []
    assert not any(each.startswith("Volume a ") for each in texts)


def test_steps_that_were_read_alike_are_one_caveat(tmp_path: Path) -> None:
    steps = (ColdReadStep(name="cold"), ColdReadStep(name="colder"))
    volumes = tuple(SyntheticVolume(name=name, notes=("lukewarm",)) for name in "ab")
    report = build_report(build_run(tmp_path, Synthetic(volumes=volumes, repeats=1, steps=steps)))
    assert [text for text in report.summary.caveats if "lukewarm" in text] == [
        "Steps cold and colder on a, b were read lukewarm: a cache above the volume could have served part of it."
    ]


@pytest.mark.parametrize("note", [ENDED_BY_QUEUE, COUNTED_AS_SLOWEST, UNANSWERED])
def test_loads_with_one_fault_are_one_caveat(tmp_path: Path, note: str) -> None:
    texts = caveats(tmp_path, *(SyntheticVolume(name=name, notes=(f"the load: {note}",)) for name in "ab"))
    (text,) = [each for each in texts if note in each]
    assert "teps cold on a (1 of 1 cells) and cold on b (1 of 1 cells), " in text


def test_losses_of_several_volumes_are_one_caveat() -> None:
    def cell(volume: str, lost: float) -> CellRow:
        names = {"lost_commits": lost, "acknowledged_commits": 2100.0}
        return CellRow(
            cell_id=f"1-{volume}",
            volume=volume,
            block=0,
            repeat=1,
            step="power-cut",
            kind="crash",
            parameters={},
            metrics={name: metric(name, value) for name, value in names.items()},
            valid=True,
        )

    assert list(losses_text([cell("a", 7.0), cell("b", 2100.0), cell("c", 0.0)])) == [
        "In the crash test (power-cut), volume a lost 7 of 2,100 and volume b lost 2,100 of 2,100 acknowledged"
        " commits: servers with these settings on these volumes are not durable."
    ]
    (of_settings,) = losses_text([cell("the base", 7.0), cell("mode=sync", 8.0)], ["the base", "mode=sync"])
    assert of_settings.startswith(
        "In the crash test (power-cut), the base lost 7 of 2,100 and mode=sync lost 8 of "
    )
    (of_one,) = losses_text([cell("mode=sync", 8.0)], ["the base", "mode=sync"])
    assert of_one.startswith("mode=sync lost 8 of ")
    (single,) = losses_text([cell("a", 7.0)])
    assert single.startswith("Volume a lost 7 of 2,100 acknowledged commits in the crash test (power-cut): ")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Comparison]:
    """Each volume's throughput against the first one's."""
    volumes = tuple(
        SyntheticVolume(name=name, speed=speed) for name, speed in zip("abcd", (1, 2, 3, 4), strict=True)
    )
    path = tmp_path_factory.mktemp("run")
    report = build_report(build_run(path, Synthetic(volumes=volumes, repeats=2, steps=(OLTP,))))
    return [cast("Comparison", row) for row in report.comparisons if row.metric == "tps"]


ADJUSTMENT = Adjustment(covariate="cpu_taken", low=0.01, high=0.04, slopes=(0.5, 0.5), differ=False)


def of_rows(rows: Sequence[Comparison], *changes: Mapping[str, object]) -> list[str]:
    changed = [
        cast("Comparison", row.model_copy(update=update))  # type: ignore[attr-defined]
        for row, update in zip(rows, changes, strict=True)
    ]
    return list(adjustment_caveats(summarise(changed)))


TURNED = {"candidate_value": 0.5, "baseline_value": 1.0}
"""Medians that go the other way than the change, which is twice as much and more."""


def test_adjustments_that_change_no_answer_are_one_sentence(rows: list[Comparison]) -> None:
    """Six lines on what is adjusted, and what is not, stood above a verdict that was the same without."""
    chance, few = ({"not_adjusted": reason} for reason in ("it may be chance", "3 cells are too few"))
    assert of_rows(rows, chance, few, chance) == [
        "Other work varied from cell to cell: 3 comparisons are not adjusted"
        " (report.json has the effect or the reason)."
    ]
    assert of_rows(rows, {"adjustments": (ADJUSTMENT,)}, few, {}) == [
        "Other work varied from cell to cell: 1 comparison is adjusted for it and goes the same way as without, and"
        " 1 comparison is not adjusted (report.json has the effect or the reason)."
    ]
    assert of_rows(rows, {}, {}, {}) == []


def test_an_adjustment_that_turns_a_change_round_has_its_own_sentence(rows: list[Comparison]) -> None:
    (text, further) = of_rows(rows, {"adjustments": (ADJUSTMENT,), **TURNED}, {"adjustments": (ADJUSTMENT,)}, {})
    assert text.startswith("b against a (read-write) is adjusted for the CPU use of other work, ")
    assert further.startswith("Other work varied from cell to cell: 1 comparison is adjusted")


def test_many_adjustments_are_one_caveat_and_few_have_their_effects(rows: list[Comparison]) -> None:
    idle = replace(ADJUSTMENT, high=0.5, slopes=(0.5, 0.0), differ=True)
    busy = replace(ADJUSTMENT, low=0.2)
    texts = of_rows(rows, *({"adjustments": (adjustment,), **TURNED} for adjustment in (ADJUSTMENT, idle, busy)))
    assert texts == [
        "3 comparisons are adjusted for the CPU use of other work, which took 1 % to 50 %: b (read-write), c"
        " (read-write) and d (read-write) against a; report.json has the effect in each; in 1 of them it is not the"
        " same on both volumes; in 1 of them it is taken to do nothing on a volume, whose cells were no worse. In 1"
        " of them, all cells had to share the CPUs: such a verdict is about a machine as busy as that."
    ]
    turned = {"adjustments": (ADJUSTMENT,), **TURNED}
    few = of_rows(rows, turned, turned, {})
    assert len(few) == 2
    assert all("a tenth less CPU time for MySQL changes" in text for text in few)


def test_cells_that_other_work_took_alike_from_are_one_caveat(rows: list[Comparison]) -> None:
    alike = {"adjustments": (replace(ADJUSTMENT, low=0.2, high=0.3, slopes=(None, None)),)}
    (text,) = of_rows(rows, alike, alike, alike)
    assert text.startswith(
        "b (read-write), c (read-write) and d (read-write) against a: the CPU use of other work took"
    )
    assert " alike in all cells of each, which are compared as they ran. All cells had to share" in text


def test_pairs_are_listed_by_candidate(rows: list[Comparison]) -> None:
    dump = cast("Comparison", rows[0].model_copy(update={"step": "dump"}))  # type: ignore[attr-defined]
    assert pairs_text([rows[0], dump, rows[1]]) == "b (read-write, dump) and c (read-write) against a"
