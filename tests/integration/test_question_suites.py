"""Suites of docs/questions on MySQL 9.7 in containers: each cell has what its combination names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import live_run
import pytest

from volbench.core.records.cell import CellResult

SUITES = Path(__file__).parents[2] / "suites"
QUICK = tuple(setting for setting in live_run.SMALL if not setting.startswith(("dataset.", "steps.")))


def run(bench: live_run.Bench, suite: str, volume: str, *settings: str) -> list[tuple[dict[str, Any], CellResult]]:
    """Run a shipped suite on one volume; the parameters and the result of each cell."""
    flavor = ["engine.flavor=mariadb"] if bench.target == "local" else []
    chosen = [argument for setting in (*QUICK, *flavor, *settings) for argument in ("--set", setting)]
    process = bench.volbench(
        *("run", str(SUITES / f"{suite}.yaml"), "--target", bench.target, "--volume", f"v={volume}", *chosen),
        *("--out", str(bench.results), "--yes"),
    )
    ended = bench.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    cells = [(bench.directory.cell_dir(result.cell_id), result) for result in bench.directory.results()]
    return [(json.loads((path / "cell.json").read_bytes())["parameters"], result) for path, result in cells]


@pytest.mark.emulator
@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_each_file_system_is_below_a_server(bench: live_run.Bench, root: Path) -> None:
    volume = f"emulated:local-nvme?size=5GiB&iops=500&dir={root}"
    cells = run(bench, "filesystem", volume, "scale=ci")
    assert {parameters["volume.filesystem"] for parameters, _ in cells} == {"xfs", "ext4"}
    for parameters, result in cells:
        assert result.volume_facts.filesystem == parameters["volume.filesystem"]
        assert result.steps[0].metrics["tps"].value > 0
    effects: Any = bench.report()["effects"]
    assert {factor for effect in effects for factor in effect["factors"]} == {"volume.filesystem"}


IO_CAPACITY, DOUBLEWRITE = "engine.config.innodb_io_capacity", "engine.config.innodb_doublewrite"


@pytest.mark.parametrize("bench", live_run.LOCAL_IF_SLOW, indirect=True)
def test_each_server_has_the_flush_settings_of_its_cell(bench: live_run.Bench) -> None:
    """The setting of a combination is what the server says, and nothing else of the two differs."""
    factors = f"{IO_CAPACITY}: {{base: 10000, levels: [200]}}, {DOUBLEWRITE}: {{base: true, levels: [false]}}"
    volume = f"path:{bench.volumes['a']}"
    cells = run(bench, "flush-settings", volume, "scale=ci", f"sweep={{factors: {{{factors}}}}}")
    assert len(cells) == 3
    for parameters, result in cells:
        assert result.server is not None
        variables = result.server.variables
        assert variables["innodb_io_capacity"] == str(parameters[IO_CAPACITY])
        assert variables["innodb_doublewrite"] == ("ON" if parameters[DOUBLEWRITE] else "OFF")
