"""A dataset on a claim, as the pod that loads it meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.dataset import DatasetSpec
from volbench.errors import EXIT_ENVIRONMENT, MissingPrerequisite
from volbench.machine.engine.own_data.on_claim import located


def dump(path: str) -> DatasetSpec:
    return DatasetSpec.model_validate({"kind": "dump", "path": path})


def refused(path: str, root: Path) -> MissingPrerequisite:
    with pytest.raises(MissingPrerequisite) as caught:
        located(dump(path), root)
    assert caught.value.exit_code == EXIT_ENVIRONMENT
    assert caught.value.where == f"dataset.path {path!r}"
    return caught.value


def test_the_path_is_below_the_mounted_claim(tmp_path: Path) -> None:
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "shop.sql").write_text("SELECT 1;")
    (tmp_path / "latest.sql").symlink_to("2026/shop.sql")
    assert located(dump("pvc:dumps/2026/shop.sql"), tmp_path).path == str(tmp_path / "2026" / "shop.sql")
    assert located(dump("pvc:dumps/latest.sql"), tmp_path).path == str(tmp_path / "latest.sql")
    assert located(dump("pvc:dumps"), tmp_path).path == str(tmp_path)


def test_a_dataset_of_this_machine_and_sysbenchs_tables_stay_as_they_are(tmp_path: Path) -> None:
    for spec in (dump("/data/shop.sql"), DatasetSpec()):
        assert located(spec, tmp_path) is spec


def test_a_missing_path_is_named_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").touch()
    error = refused("pvc:dumps/2026/shop.sql", tmp_path)
    assert error.what == "claim dumps has no 2026/shop.sql"
    assert "at the claim's root: shop.sql" in error.evidence


def test_a_link_out_of_the_claim_is_refused(tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    claim.mkdir()
    (tmp_path / "secret.sql").touch()
    (claim / "shop.sql").symlink_to("../secret.sql")
    assert "is a link out of claim dumps" in refused("pvc:dumps/shop.sql", claim).what


def test_a_file_that_the_pods_user_cannot_read_is_named_before_the_load(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "ibdata1").symlink_to("nowhere")  # nobody can read it, root neither
    error = refused("pvc:restored/copy", tmp_path)
    assert "may not read the dataset" in error.what
    assert "copy/ibdata1 is of user" in error.evidence
    assert "--target-option user=UID" in error.next_step
