"""Two volumes of very different speed get the verdict in pods that they get in containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cluster_run
import live_run
import pytest
from cluster_volumes import emulated_claim

SPECS = {"fast": "emulated:ebs-io2?size=16GiB", "slow": "emulated:ebs-2016?size=16GiB"}
SHORT = (
    "dataset.rows=10000",
    "engine.config.innodb_buffer_pool_size=8M",
    "repeats=5",
    "steps.0.duration=4s",
    "limits.emulator_late=100%",  # a machine that is busy with two control planes falls behind; the order stays
)
RUN_S_MAX = 600.0
pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.docker,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.timeout(1400),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes volumes of the lab's node"),
]


@pytest.fixture
def benches(tmp_path: Path, root: Path) -> Iterator[tuple[live_run.Bench, cluster_run.ClusterBench]]:
    """A place for a run in containers, and one for a run in pods."""
    locations = [tmp_path / "docker", root / "kubernetes"]
    for location in locations:
        location.mkdir()
    cluster_run.lab("images")
    with (
        live_run.bench("docker", locations[0], locations[0] / "cache") as containers,
        cluster_run.cluster_bench(locations[1]) as pods,
    ):
        yield containers, pods


def in_containers(bench: live_run.Bench, disk: Path) -> dict[str, Any]:
    """The report of the run on the docker target."""
    bench.volumes.clear()
    volumes = [w for name, spec in SPECS.items() for w in ("--volume", f"{name}={spec}&dir={disk}")]
    return ended(bench, bench.end(bench.start(*SHORT, options=volumes), RUN_S_MAX))


def in_pods(bench: cluster_run.ClusterBench) -> dict[str, Any]:
    """The report of the run on local volumes of a node."""
    with ExitStack() as claims:
        for name, spec in SPECS.items():
            claims.enter_context(emulated_claim(bench, name, spec))
        process = bench.start(*SHORT, volumes={name: f"pvc:{name}" for name in SPECS})
        return ended(bench, bench.end(process, RUN_S_MAX))


def ended(bench: live_run.Bench, end: live_run.Ended) -> dict[str, Any]:
    assert end.code in live_run.FINISHED, end.output
    bench.assert_all_done_once()
    return bench.report()


def test_the_verdict_in_pods_is_that_in_containers(
    benches: tuple[live_run.Bench, cluster_run.ClusterBench], root: Path
) -> None:
    """The headline is the same; no metric is decided one way here and another way there."""
    containers, pods = benches
    disk = root / "containers"
    disk.mkdir()
    local, existing = in_containers(containers, disk), in_pods(pods)
    if file := os.environ.get("VOLBENCH_VERDICTS"):
        Path(file).write_text(difference_of(local, existing) + "\n")
    assert local["summary"]["verdict"] == existing["summary"]["verdict"] == "candidate_worse", difference_of(
        local, existing
    )
    decided = [{row["verdict"], alternative["verdict"]} for row, alternative in paired(local, existing)]
    assert {"worse"} in decided, difference_of(local, existing)
    assert all(len(both - {"inconclusive"}) <= 1 for both in decided), difference_of(local, existing)


def paired(local: dict[str, Any], existing: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Comparisons of the same metric of the same step, where both runs have one."""
    rows = {(row["step"], row["metric"]): row for row in existing["comparisons"]}
    both = [(row, rows.get((row["step"], row["metric"]))) for row in local["comparisons"]]
    return [(row, alternative) for row, alternative in both if alternative is not None]


def difference_of(local: dict[str, Any], existing: dict[str, Any]) -> str:
    """Both runs' verdicts, for a failure's message."""
    lines = [report["summary"]["sentence"] for report in (local, existing)]
    lines += [
        f"{row['metric']}: {row['verdict']} {row['ratio']}, {alternative['verdict']} {alternative['ratio']}"
        for row, alternative in paired(local, existing)
    ]
    return "\n".join(lines)
