"""A dump with an address and no path: on the volume for as long as it is loaded, as a pod does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from s3_server import NAME, credentials, s3, s3_address

from volbench.core.records.dataset import DatasetSpec
from volbench.errors import MissingPrerequisite, VolbenchError
from volbench.machine.volume import space
from volbench.measure.execute.cell.dataset import available

__all__ = ["credentials", "s3", "s3_address"]
DUMP = b"CREATE TABLE t (id INT);\n"


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch, s3_address: str, credentials: None) -> None:
    """The variables that a pod has."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{s3_address}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def test_it_is_there_while_it_is_loaded_and_gone_afterwards(tmp_path: Path, s3: Any) -> None:
    s3.put_object(Bucket=NAME, Key="dumps/shop.sql", Body=DUMP)
    dataset = DatasetSpec(kind="dump", url=f"s3://{NAME}/dumps/shop.sql")
    with available(dataset, tmp_path, lambda _: None) as held:
        assert Path(held.path).read_bytes() == DUMP
        assert Path(held.path).is_relative_to(tmp_path)
    assert not (tmp_path / "downloads").exists()


def test_a_load_that_fails_leaves_nothing_of_it(tmp_path: Path, s3: Any) -> None:
    s3.put_object(Bucket=NAME, Key="shop.sql", Body=DUMP)
    dataset = DatasetSpec(kind="dump", url=f"s3://{NAME}/shop.sql")
    with pytest.raises(RuntimeError), available(dataset, tmp_path, lambda _: None):
        raise RuntimeError("the server refuses a statement")
    assert not (tmp_path / "downloads").exists()


def test_an_object_that_is_missing_is_named(tmp_path: Path, s3: Any) -> None:
    dataset = DatasetSpec(kind="dump", url=f"s3://{NAME}/shop.sql")
    attempt = available(dataset, tmp_path, lambda _: None)
    with pytest.raises(MissingPrerequisite, match="could not be downloaded") as raised:
        attempt.__enter__()
    assert raised.value.cause == "download_failed"
    assert not (tmp_path / "downloads").exists()


def test_a_volume_without_room_for_the_download_is_told_what_a_pod_can_have(
    tmp_path: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod takes no `path` next to a `url`."""
    s3.put_object(Bucket=NAME, Key="shop.sql", Body=DUMP)
    monkeypatch.setattr(space, "free_bytes", lambda _: 1)
    attempt = available(DatasetSpec(kind="dump", url=f"s3://{NAME}/shop.sql"), tmp_path, lambda _: None)
    with pytest.raises(VolbenchError) as raised:
        attempt.__enter__()
    assert "pvc:CLAIM/" in raised.value.next_step
    assert not (tmp_path / "downloads").exists()


def test_a_dataset_of_this_machine_stays_where_it_is(tmp_path: Path) -> None:
    dataset = DatasetSpec(kind="dump", path=str(tmp_path / "shop.sql"))
    with available(dataset, tmp_path, lambda _: None) as held:
        assert held == dataset
