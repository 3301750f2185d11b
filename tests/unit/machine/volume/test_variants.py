"""Volumes of a sweep: options put into SPECs, each distinct one opened once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from volbench.core.plan.order import interleave
from volbench.core.plan.variants import expand_variants, with_spec_options
from volbench.core.profile.resolve import resolve_volume
from volbench.core.profile.spec import parse_volume
from volbench.core.records.sweep import SweepSpec
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError


def sweep(factors: dict[str, object], design: str = "one_factor") -> SweepSpec:
    return SweepSpec.model_validate({"design": design, "factors": factors})


IOPS = {"base": 192, "levels": [960]}
MODE = {"base": "sync", "levels": "async"}
FLUSH = {"base": 1, "levels": [2, 0]}


def test_without_a_sweep_each_volume_is_a_treatment() -> None:
    volumes = [parse_volume("a=path:/mnt/a"), parse_volume("b=path:/mnt/b")]
    specs, treatments = expand_variants(volumes, None)
    assert specs == volumes
    assert [(t.volume, t.label, dict(t.parameters)) for t in treatments] == [("a", "a", {}), ("b", "b", {})]


def test_the_suite_of_file_systems_makes_one_volume_of_each() -> None:
    suite, _ = load_suite(Path("suites/filesystem.yaml"))
    specs, _ = expand_variants([parse_volume(spec, name=name) for name, spec in suite.volumes.items()], suite.sweep)
    assert [resolve_volume(made).filesystem for made in specs] == ["xfs", "ext4"]


def test_options_that_differ_make_volumes_and_other_factors_share_them() -> None:
    volumes = [parse_volume("fsx=emulated:fsx-openzfs?size=128GiB")]
    factors: dict[str, Any] = {"volume.iops": IOPS, "engine.config.sync_binlog": FLUSH}
    specs, treatments = expand_variants(volumes, sweep(factors, "full"))
    assert {s.name: (s.text, s.variant_of) for s in specs} == {
        "fsx": ("emulated:fsx-openzfs?size=128GiB&iops=192", ""),
        "fsx.iops-960": ("emulated:fsx-openzfs?size=128GiB&iops=960", "fsx"),
    }
    assert len(treatments) == len({t.label for t in treatments}) == 6
    assert all((t.volume == "fsx") == (t.parameters["volume.iops"] == 192) for t in treatments)


def test_every_block_holds_every_combination_once() -> None:
    volumes = [parse_volume(f"{name}=emulated:fsx-openzfs") for name in ("a", "b")]
    _, treatments = expand_variants(volumes, sweep({"volume.mode": MODE, "engine.config.sync_binlog": FLUSH}))
    cells = interleave(treatments, repeats=4, seed=1)
    assert len({cell.cell_id for cell in cells}) == 4 * len(treatments) == 32
    for block in range(4):
        result = [(c.volume, str(c.parameters)) for c in cells if c.block == block]
        assert len(result) == len(set(result)) == len(treatments)


def test_an_option_that_a_volume_does_not_have_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        expand_variants([parse_volume("fsx=emulated:fsx-openzfs")], sweep({"volume.iop": IOPS}))
    assert "perhaps you meant 'iops'" in str(error.value)
    with pytest.raises(UsageError, match="has no option 'iops'"):
        expand_variants([parse_volume("a=path:/mnt/a")], sweep({"volume.iops": IOPS}))


def test_mount_options_of_nfs_replace_those_of_the_spec() -> None:
    volume = parse_volume("n=nfs:server:/export?vers=4.1,noac,hard")
    assert with_spec_options(volume, {"vers": 3, "nconnect": 4}).options == {
        "options": "vers=3,noac,hard,nconnect=4"
    }
    assert with_spec_options(volume, {"noac": False, "sync": True}).options == {"options": "vers=4.1,hard,sync"}


def test_too_many_volumes_at_a_time_are_refused() -> None:
    levels = {"base": 100, "levels": list(range(101, 120))}
    with pytest.raises(UsageError, match="20 volumes at the same time"):
        expand_variants([parse_volume("fsx=emulated:fsx-openzfs")], sweep({"volume.iops": levels}))
