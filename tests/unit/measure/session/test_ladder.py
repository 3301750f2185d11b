"""The ladder of threads before a run: which levels, which load it finds, and what it records."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.plan.ladder import ladder_lines, ladder_of, ladder_suite, levels_of
from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.ladder import LadderLevel
from volbench.core.records.metrics import metric
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.suite.capacity import capacity_suite
from volbench.errors import StepFailed, UsageError
from volbench.measure.session.ladder import with_reached_threads
from volbench.measure.session.load_depth import load_caveats
from volbench.measure.session.planner import Planned, make_plan
from volbench.measure.session.runner import create
from volbench.measure.session.servers import TargetRequest
from volbench.results.report.rows.load_limit import ladder_sentence
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, RunDirectory

SUITE = Path(__file__).parents[4] / "suites" / "compare.yaml"
UP_TO_64 = ("steps.read-write.threads_max=64",)


def planned(*settings: str, volumes: tuple[str, ...] = ("a=path:/mnt/a", "b=path:/mnt/b")) -> Planned:
    return make_plan(SUITE, volumes, TargetRequest(target="local"), settings=settings)


def levels(volume: str, *figures: tuple[int, float]) -> list[LadderLevel]:
    return [LadderLevel(volume=volume, threads=threads, tps=tps) for threads, tps in figures]


def test_levels_double_the_threads_of_the_step() -> None:
    assert levels_of(OltpStep(name="o", threads=(8,), threads_max=100)) == (8, 16, 32, 64)
    assert levels_of(OltpStep(name="o", threads=(3,), threads_max=4)) == (3,)


def test_the_load_is_the_fewest_threads_that_every_volume_needs() -> None:
    """Volume a is at its limit with 16 threads, and b, of twice its latency, with 32."""
    step = OltpStep(name="o", threads=(8,), threads_max=64)
    found = ladder_of(
        step,
        [
            *levels("a", (8, 500), (16, 980), (32, 1000), (64, 1010)),
            *levels("b", (8, 250), (16, 500), (32, 960), (64, 1000)),
        ],
        "r",
    )
    assert found.threads == 32
    assert ladder_of(step, levels("a", (8, 990), (16, 1000), (32, 900), (64, 700)), "r").threads == 8


def test_a_ladder_is_one_short_cell_of_each_volume() -> None:
    plan = planned(*UP_TO_64)
    suite = ladder_suite(plan.run.suite)
    assert [(step.name, step.threads, step.duration_s) for step in suite.steps if isinstance(step, OltpStep)] == [
        (f"read-write-{threads}", (threads,), 2.0) for threads in (8, 16, 32, 64)
    ]
    assert (suite.repeats, suite.comparison.until) == (1, "all_cells")
    [line] = ladder_lines(plan.run.suite)
    assert line.startswith("ladder before the first cell, about ")
    assert line.endswith(
        " in one cell of each volume: step read-write with 8, 16, 32, 64 threads;"
        " all cells then have the same threads"
    )
    assert not list(ladder_lines(planned().run.suite))


class Ladder:
    """Climbs with these figures, by volume and threads, without a server."""

    def __init__(self, where: Path, figures: dict[str, tuple[float, ...]]) -> None:
        self.where, self.figures = where, figures
        self.plans: list[Planned] = []

    def __call__(self, plan: Planned) -> RunDirectory:
        self.plans.append(plan)
        directory = create(plan, self.where)
        for cell in plan.run.cells:
            steps = tuple(
                StepResult(
                    step=step.name,
                    kind="oltp",
                    parameters=step.parameters(),
                    window_s=(1.0, 3.0),
                    metrics={"tps": metric("tps", tps)},
                    valid=True,
                )
                for step, tps in zip(plan.run.suite.steps, self.figures.get(cell.volume, ()), strict=False)
            )
            result = CellResult(
                cell_id=cell.cell_id,
                attempt=1,
                status="done",
                zero_utc="2026-03-02T09:30:00Z",
                zero_monotonic_ns=0,
                wall_s=10.0,
                volume_facts=VolumeFacts(path="/mnt"),
                host=plan.run.host,
                server=None,
                phases=(),
                steps=steps,
                sources=(),
            )
            out = directory.cell_dir(cell.cell_id)
            out.mkdir(parents=True)
            write_record(out / RESULT_FILE, result)
        return directory


def test_all_cells_of_a_run_have_the_threads_that_its_ladder_found(tmp_path: Path) -> None:
    plan, said = planned(*UP_TO_64), list[str]()
    ladder = Ladder(tmp_path, {"a": (500, 980, 1000, 1010), "b": (250, 500, 960, 1000)})
    climbed_plan = with_reached_threads(plan, ladder, said.append)
    [ladder_plan] = ladder.plans
    assert [cell.volume for cell in ladder_plan.run.cells] in (["a", "b"], ["b", "a"])
    run = climbed_plan.run
    assert [step.threads for step in run.suite.steps if isinstance(step, OltpStep)] == [(32,), (8,)]
    assert [(found.step, found.threads, found.run_id) for found in run.ladders] == [
        ("read-write", 32, ladder_plan.run.run_id)
    ]
    assert run.run_id not in {plan.run.run_id, ladder_plan.run.run_id}
    assert run.cells == plan.run.cells
    [text] = said
    assert text.startswith("Step read-write has 32 threads in every cell, the fewest of a ladder with which each")
    assert "a did 500 with 8, 980 with 16, 1,000 with 32, 1,010 with 64" in text
    assert "raise `threads_max`" not in text
    assert RunDirectory.open(create(climbed_plan, tmp_path).path).run.ladders == run.ladders


def test_a_ladder_that_ends_too_early_says_so() -> None:
    found = ladder_of(OltpStep(name="o", threads=(8,), threads_max=16), levels("a", (8, 500), (16, 1000)), "r")
    assert ladder_sentence(found).endswith("more threads may do more: raise `threads_max`.")


def test_a_volume_without_a_figure_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="no figure of volume b"):
        with_reached_threads(planned(*UP_TO_64), Ladder(tmp_path, {"a": (500, 980)}))


def test_a_suite_without_a_ladder_is_run_as_it_is(tmp_path: Path) -> None:
    plan = planned()
    assert with_reached_threads(plan, Ladder(tmp_path, {})) is plan


def test_a_run_whose_threads_nobody_found_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="climbs the ladder first"):
        create(planned(*UP_TO_64), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("steps.read-write.rate=100", "without `rate`"),
        ("steps.read-write.threads=[1, 8]", "has several"),
        ("steps.read-write.threads=128", "below `threads`"),
        ("sweep={design: one_factor, factors: {steps.point-select.threads: {base: 8, levels: [16]}}}", "a sweep"),
    ],
)
def test_what_a_ladder_contradicts_is_refused(setting: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        planned(*UP_TO_64, "comparison.until=all_cells", setting)
    assert message in f"{raised.value.what} {raised.value.evidence}"


def test_a_ladder_that_may_reach_a_volume_needs_no_caveat() -> None:
    io2 = ("io2=emulated:ebs-io2?iops=64000&size=2TiB",)
    assert len(list(load_caveats(planned(volumes=io2).run))) == 2
    [text] = load_caveats(planned("steps.read-write.threads_max=64", volumes=io2).run)
    assert "step point-select" in text


def test_a_search_for_rates_leaves_the_ladder_out() -> None:
    text = capacity_suite(
        SUITE.read_text(),
        name="compare",
        step="",
        rates=(10,),
        repeats=1,
        settings=["steps.read-write.threads_max=64"],
    )
    assert "threads_max" not in text
