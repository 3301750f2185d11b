"""`volbench run suites/compression.yaml`: what a read of a compressed page takes, by the volume's own counters."""

from __future__ import annotations

import json
from pathlib import Path

import live_run
import pytest

from volbench.core.records.cell import StepResult

pytestmark = pytest.mark.emulator
SUITE = Path(__file__).parents[2] / "suites/compression.yaml"
FACTOR = "dataset.options.page_compression"
SETTINGS = (
    "scale=ci",
    *(setting for setting in live_run.SMALL if not setting.startswith(("dataset.", "steps."))),
    "engine.config.innodb_buffer_pool_size=6M",
    "dataset.options.table-size=60000",
    "dataset.options.compress_to=0.1",
    "dataset.size=40MiB",
    f'sweep={{factors: {{{FACTOR}: {{base: "off", levels: ["on"]}}}}}}',
)
"""The tables have four times the pages of the pool, so that most rows are read from the volume."""


def kib_a_read(step: StepResult) -> float:
    return 1024 * step.metrics["read_mib_per_s"].value / step.metrics["iops_read"].value


@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_a_compressed_page_is_read_by_one_operation_of_fewer_bytes(bench: live_run.Bench, root: Path) -> None:
    """MySQL 9.7 in containers: the volume's limit of operations is met with as many of them."""
    chosen = [argument for setting in SETTINGS for argument in ("--set", setting)]
    if bench.target == "local":
        chosen += ["--set", "engine.flavor=mariadb"]
    volume = f"operations=emulated:local-nvme?size=5GiB&iops=800&dir={root}"
    process = bench.volbench(
        *("run", str(SUITE), "--target", bench.target, "--volume", volume, *chosen),
        *("--out", str(bench.results), "--yes"),
    )
    ended = bench.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    steps: dict[str, StepResult] = {}
    for result in bench.directory.results():
        cell = json.loads((bench.directory.cell_dir(result.cell_id) / "cell.json").read_bytes())
        (steps[cell["parameters"][FACTOR]],) = result.steps
    assert kib_a_read(steps["off"]) > 13
    assert kib_a_read(steps["on"]) < 0.7 * kib_a_read(steps["off"])
