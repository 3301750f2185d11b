"""Operations of one size at a limit: a contrast of sizes names the limit, of operations or of bytes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import live_run
import pytest
import yaml

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.run_cases import cases_of
from volbench.results.stats.grid import Grid
from volbench.results.store.loaded_run import load_run

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(shutil.which("fio") is None, reason="no fio"),
]
STEPS = [
    {
        "kind": "oltp",
        "name": "reads",
        "test": "select_random_points",
        "rand_type": "uniform",
        "threads": 8,
        "warmup": "2s",
        "duration": "12s",
    },
    {
        "kind": "fio",
        "name": "fio",
        "block_size": "16KiB",
        "iodepth": 8,
        "size": "16MiB",
        "ramp": "1s",
        "duration": "12s",
        "size_contrast": "5s",
    },
]


LIMITS = ("storage.iops_limit", "storage.throughput_limit")


def without_counters(case: Case) -> Case:
    """The step on a volume that does not count how long its limits were exceeded, as most do not."""
    return replace(case, grid=_uncounted(case.grid), cell_grid=_uncounted(case.cell_grid))


def _uncounted(grid: Grid) -> Grid:
    return replace(grid, columns={key: grid.columns[key] for key in grid.columns if "exceeded" not in key.metric})


def profile_in(directory: Path) -> Path:
    """gp3 without the least that one can buy, so that a busy machine meets its limits."""
    profile = yaml.safe_load(Path("suites/volumes/ebs-gp3.yaml").read_text())
    file = directory / "small.yaml"
    file.write_text(json.dumps({**profile, "name": "small", "checks": []}))
    return file


def suite_in(directory: Path, *, flavor: str) -> Path:
    suite = {
        "schema": 2,
        "name": "contrast",
        "underpowered": True,
        "engine": {"flavor": flavor, "config": {"innodb_buffer_pool_size": "8M"}},
        "dataset": {"tables": 2, "rows": 100_000},
        "steps": STEPS,
        "sampling": {"summaries": False, "size_contrast": "4s"},
        "limits": {
            "foreign_iops": 1e6,
            "foreign_cpu": 1.0,
            "cpu_steal": 1.0,
            "missed_samples": 0.9,
            "emulator_late": 1.0,
            "client_cpu": 1.0,
        },
        "repeats": 1,
        "replacements": 0,
    }
    file = directory / "suite.yaml"
    file.write_text(json.dumps(suite))
    return file


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        ("iops=200&throughput=100", "storage.iops_limit"),
        ("iops=4000&throughput=3", "storage.throughput_limit"),
    ],
)
@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_each_limit_is_named_and_not_both(limits: str, cause: str, bench: live_run.Bench, root: Path) -> None:
    """200 operations a second, or 3 MiB/s: pages of 16 KiB meet either at one level of operations and of bytes."""
    flavor = "mariadb" if bench.target == "local" and shutil.which("mariadbd") else "any"
    process = bench.volbench(
        "run",
        str(suite_in(bench.root, flavor=flavor)),
        "--target",
        bench.target,
        "--volume",
        f"v=emulated:{profile_in(bench.root)}?{limits}&dir={root}",
        "--out",
        str(bench.results),
        "--yes",
    )
    ended = bench.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    loaded = load_run(bench.directory)
    (result,) = loaded.results
    assert [(one.step, one.block_size_bytes >> 10) for one in result.size_contrasts[-2:]] == [("", 4), ("", 64)]
    first = result.size_contrasts[0]
    assert (first.step, first.block_size_bytes >> 10) == ("fio", 64)
    fio = next(step for step in result.steps if step.step == "fio/randread-16KiB")
    assert first.window_s[0] >= fio.window_s[1]
    cases = {case.name: without_counters(case) for case in cases_of(loaded, result)}
    for step in ("reads", "fio/randread-16KiB"):
        named = [one for one in explain_case(cases[step]).findings if one.cause in LIMITS]
        assert [(one.cause, one.one_of_two) for one in named] == [(cause, False)]
        levels = {level.resource for level in cases[step].levels}
        sentences = [row.text for row in named[0].evidence if row.metric == "size_contrast"]
        assert cause.removeprefix("storage.").removesuffix("_limit") in levels
        if len(levels) > 1:  # else sizes varied within the step, and its own level has told
            (sentence,) = sentences
            assert "are limited, and not" in sentence
    assert bench.leftovers() == []
