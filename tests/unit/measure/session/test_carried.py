"""Own files that pods get from this machine: which, how packed, and how large they may be."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replay import ReplayStep
from volbench.errors import UsageError
from volbench.measure.session.carried import BYTES_MAX, carried_files


def dataset(path: Path | str, kind: str = "dump") -> DatasetSpec:
    return DatasetSpec.model_validate({"kind": kind, "path": str(path)})


def noise(size_bytes: int) -> bytes:
    return random.Random(1).randbytes(size_bytes)


def test_a_script_comes_with_the_modules_in_its_directory_and_once(tmp_path: Path) -> None:
    for name in ("own.lua", "keys.lua", "notes.txt"):
        (tmp_path / name).write_text(name)
    step = OltpStep(test=str(tmp_path / "own.lua"))
    expected = {str(tmp_path / name): name.encode() for name in ("own.lua", "keys.lua")}
    assert carried_files(dataset(tmp_path / "own.lua", "script"), [step, step]) == expected
    assert carried_files(DatasetSpec(), [step, OltpStep()]) == expected


def test_a_file_of_sql_is_packed_and_one_that_is_packed_stays(tmp_path: Path) -> None:
    text = b"INSERT INTO t VALUES (1);\n" * 100_000
    (tmp_path / "shop.sql").write_bytes(text)
    (tmp_path / "shop.sql.gz").write_bytes(gzip.compress(text))
    (packed,) = carried_files(dataset(tmp_path / "shop.sql"), []).values()
    assert len(packed) < BYTES_MAX < len(text)
    assert gzip.decompress(packed) == text
    (as_it_is,) = carried_files(dataset(tmp_path / "shop.sql.gz"), []).values()
    assert as_it_is == (tmp_path / "shop.sql.gz").read_bytes()


def test_a_log_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text("# Time")
    assert carried_files(DatasetSpec(), [ReplayStep(log=str(tmp_path / "slow.log"))]) == {
        str(tmp_path / "slow.log"): b"# Time"
    }


def test_a_dataset_on_a_claim_is_not_read_here() -> None:
    assert carried_files(dataset("pvc:dumps/shop.sql"), []) == {}


@pytest.mark.parametrize("name", ["shop.sql", "shop.sql.gz", "slow.log", "own.lua", "directory"])
def test_what_is_too_large_is_refused_with_the_claim_as_the_next_step(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "directory":
        path.mkdir()
    else:
        head = b"\x1f\x8b" if name.endswith(".gz") else b""
        path.write_bytes(head + noise(BYTES_MAX + 1))
    steps = [ReplayStep(log=str(path))] if name == "slow.log" else []
    steps += [OltpStep(test=str(path))] if name == "own.lua" else []  # type: ignore[list-item]
    with pytest.raises(UsageError, match="has room for 900 KiB") as refused:
        carried_files(DatasetSpec() if steps else dataset(path), steps)
    assert refused.value.where == str(path)
    assert "pvc:CLAIM/" in refused.value.next_step


def test_files_that_are_too_large_together_are_refused_with_the_largest(tmp_path: Path) -> None:
    for number, share in enumerate((0.3, 0.5, 0.4)):
        (tmp_path / f"{number}.lua").write_bytes(noise(int(BYTES_MAX * share)))
    with pytest.raises(UsageError, match="has room for 900 KiB") as refused:
        carried_files(DatasetSpec(), [OltpStep(test=str(tmp_path / "0.lua"))])
    assert refused.value.where == str(tmp_path / "1.lua")
    assert "3 files" in refused.value.evidence


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read") as refused:
        carried_files(DatasetSpec(), [ReplayStep(log=str(tmp_path))])
    assert refused.value.where == str(tmp_path)
