"""The suites of the field reports, planned on their own emulated volumes; a plan touches nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from volbench.cli import console
from volbench.cli.runs.plan import show_plan
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import RunUnreadable, UsageError
from volbench.measure.session.planner import Planned, make_plan
from volbench.measure.session.servers import TargetRequest
from volbench.results.store.references import check_run

SUITES = Path(__file__).parents[4] / "suites"


def planned(suite: str, *settings: str) -> Planned:
    return make_plan(SUITES / f"{suite}.yaml", [], TargetRequest(target="local"), settings=settings)


def difference_of(plan: Planned) -> str:
    with console.out.capture() as captured:
        show_plan(plan)
    return " ".join(captured.get().split())


def test_fsx_async_writes_varies_one_knob_at_a_time() -> None:
    plan = planned("fsx-async-writes", "scale=ci")
    assert {volume.variant_of for volume in plan.run.volumes} == {"", "fsx"}
    assert len(plan.run.cells) == plan.cost.cells == 30
    text = difference_of(plan)
    assert "6 combinations" in text
    assert "volume.iops: 192 (base), 960" in text
    assert "decide nothing" not in text
    assert "2 repeats cannot decide" in difference_of(planned("fsx-async-writes", "repeats=2"))


def test_fsx_async_writes_runs_without_its_sweep_on_named_volumes() -> None:
    suite = SUITES / "fsx-async-writes.yaml"
    plan = make_plan(
        suite, ["v4=path:/mnt/a", "v3=path:/mnt/b"], TargetRequest(target="local"), settings=["sweep=null"]
    )
    assert [volume.name for volume in plan.run.volumes] == ["v4", "v3"]
    assert plan.cost.cells == 10


@pytest.mark.parametrize(("scale", "after", "iops"), [("full", "39 min 44 s", "2,415"), ("ci", "18.5 s", "1,050")])
def test_gp2_credit_exhaustion_says_before_the_run_when_the_credits_will_be_gone(
    scale: str, after: str, iops: str
) -> None:
    """5.4 million credits at so many reads less 150 a second; scale ci has a bucket 325 times smaller."""
    text = difference_of(planned("gp2-credit-exhaustion", f"scale={scale}"))
    assert f"credits run out {after} after shop begins, at {iops} IOPS; then 150 IOPS are left" in text
    assert "it fits its window" in text
    assert ("325 times smaller" in text) is (scale == "ci")


def test_rook_ceph_replicas_measures_the_same_on_nine_volumes() -> None:
    plan = planned("rook-ceph-replicas", "scale=ci")
    assert plan.run.volumes[0].name == "gp2"
    assert plan.cost.cells == 9 * 4
    assert "prefill=True" in difference_of(plan)


@pytest.mark.parametrize(
    "suite",
    ["fargate-efs-cold-read", "efs-small-files", "fsx-async-writes", "gp2-credit-exhaustion", "rook-ceph-replicas"],
)
def test_a_plan_prints_each_prediction_of_a_report_and_each_is_of_a_volume_and_step_of_it(suite: str) -> None:
    plan = planned(suite, "scale=report")
    forecast = plan.run.suite.forecast
    assert forecast is not None
    assert forecast.predictions
    text = difference_of(plan)
    volumes = {volume.name for volume in plan.run.volumes}
    steps = {step.name for step in plan.run.suite.steps}
    for prediction in forecast.predictions:
        assert {prediction.volume, prediction.against or prediction.volume} <= volumes
        assert prediction.step.partition("/")[0] in steps
        assert " ".join(prediction.derivation.split()) in text


def test_a_dump_at_an_address_is_planned_with_its_place_in_the_cache_and_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLBENCH_CACHE", str(tmp_path / "cache"))
    suite = tmp_path / "own.yaml"
    suite.write_text(
        "schema: 2\nname: own\n"
        f"dataset: {{kind: dump, url: 'https://dumps.invalid/shop.sql.gz', sha256: {'a' * 64}, schema: shop}}\n"
        "steps: [{kind: idle, duration: 1s}]\nrepeats: 1\n"
    )
    volumes = [f"a=path:{tmp_path}"]
    plan = make_plan(suite, volumes, TargetRequest(target="local"))
    path = Path(plan.run.suite.dataset.path)
    assert path.is_relative_to(tmp_path / "cache")
    assert path.name == "shop.sql.gz"
    assert "https://dumps.invalid/shop.sql.gz, downloaded to" in difference_of(plan)
    assert not (tmp_path / "cache").exists()
    sweep = "sweep={factors: {dataset.path: {base: a.sql, levels: [b.sql]}}}"
    with pytest.raises(UsageError, match="a sweep cannot download"):
        make_plan(suite, volumes, TargetRequest(target="local"), settings=[sweep])


PREDICTING = [path for path in sorted(SUITES.glob("*.yaml")) if "predictions:" in path.read_text()]


@pytest.mark.parametrize("path", PREDICTING, ids=lambda path: path.stem)
def test_every_suite_can_be_planned_on_volumes_of_the_users_own(path: Path, tmp_path: Path) -> None:
    """A suite predicts for volumes of its own; a run on others has none such, and nobody could read it."""
    message: list[str] = []
    plan = make_plan(
        path,
        [f"mine=path:{tmp_path}"],
        TargetRequest(target="local"),
        settings=["sweep=null"],
        say=message.append,
    )
    check_run(plan.run, path)
    assert plan.run.suite.forecast is None or not plan.run.suite.forecast.predictions
    assert any("are left out: the run has no such volume" in line for line in message)


def test_predictions_of_the_volumes_that_a_run_has_stay(tmp_path: Path) -> None:
    volumes = [f"ebs=path:{tmp_path}", "efs=path:/mnt/efs"]
    plan = make_plan(SUITES / "efs-small-files.yaml", volumes, TargetRequest(target="local"))
    assert plan.run.suite.forecast is not None
    names = {(row.volume, row.against) for row in plan.run.suite.forecast.predictions}
    assert names == {("ebs", ""), ("efs", ""), ("efs", "ebs")}


SUITE = """
schema: 2
name: small
dataset: {{tables: 1, rows: 1000}}
steps: [{{kind: oltp, name: reads, test: oltp_point_select, threads: 1, duration: 2s}}]
volumes: {{gp3: "path:/mnt/gp3"}}
forecast:
  predictions:
    - {{volume: {volume}, step: {step}, metric: tps, value: 100, derivation: "an example without a source"}}
"""


@pytest.mark.parametrize(
    ("volume", "step", "message"),
    [
        ("gp33", "reads", r"no volume 'gp33'; the nearest is 'gp3'"),
        ("gp3", "read", r"no step 'read'; the nearest of 1 is 'reads'"),
    ],
)
def test_a_prediction_for_what_the_suite_does_not_have_is_refused(
    tmp_path: Path, volume: str, step: str, message: str
) -> None:
    """Before the run's directory is made: a run with such a name cannot be read."""
    path = tmp_path / "small.yaml"
    path.write_text(SUITE.format(volume=volume, step=step))
    with pytest.raises(UsageError) as refused:
        make_plan(path, [], TargetRequest(target="local"))
    assert re.search(message, str(refused.value))


def test_a_step_for_each_of_several_thread_levels_can_be_read(tmp_path: Path) -> None:
    """`threads: [1, 8]` makes two steps of one name, which their threads tell apart."""
    plan = make_plan(SUITES / "oltp.yaml", [f"a=path:{tmp_path}"], TargetRequest(target="local"))
    steps = [step for step in plan.run.suite.steps if isinstance(step, OltpStep)]
    assert len({step.name for step in steps}) < len(steps)
    check_run(plan.run, tmp_path)
    twice = plan.run.suite.model_copy(update={"steps": (*plan.run.suite.steps, steps[0])})
    with pytest.raises(RunUnreadable, match=r"\(threads 1\)' is there twice"):
        check_run(plan.run.model_copy(update={"suite": twice}), tmp_path)


def test_a_plan_of_an_attached_server_counts_no_contrast_of_sizes() -> None:
    """Nobody stops that server, so that its data files are not read; the plan counted 13 s for it."""
    attached = TargetRequest(target="attach", servers=["mysql://u@h/"])
    long = ["steps.read-write.duration=300s"]
    plan, without = (
        make_plan(SUITES / "compare.yaml", [], attached, settings=[*long, *more])
        for more in ([], ["sampling.size_contrast=0s"])
    )
    assert plan.cost.wall_s == without.cost.wall_s
    assert plan.run.suite.sampling.size_contrast_s == 0
    with pytest.raises(UsageError, match="contrast of sizes"):
        make_plan(SUITES / "compare.yaml", [], attached, settings=["sampling.size_contrast=5s"])


def test_an_attached_server_is_not_encrypted() -> None:
    attached = TargetRequest(target="attach", servers=["mysql://u@h/"])
    with pytest.raises(UsageError, match="does not configure an attached server") as caught:
        make_plan(SUITES / "compare.yaml", [], attached, settings=["engine.encryption=tables"])
    assert (caught.value.where, caught.value.exit_code) == ("engine.encryption", 2)
