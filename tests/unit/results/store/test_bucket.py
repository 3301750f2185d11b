"""Copies of runs in a bucket of a real S3 server on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from s3_server import NAME, credentials, s3, s3_address
from synthetic_run import Synthetic, SyntheticVolume, build_run
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.cli.runs import execution
from volbench.core.base import s3 as transfers
from volbench.core.base.s3 import StoredObject
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.execute.run import CellState
from volbench.measure.session.copies import copied, copying
from volbench.results.store.bucket import SUMS_FILE, Bucket, Copied

SUITES = Path(__file__).parents[4] / "suites"
__all__ = ["credentials", "s3", "s3_address"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Files as a run has them, some of them not for others."""
    directory = tmp_path / "20260301T120000Z-quick-1a2b3c"
    (directory / "cells" / "01-a").mkdir(parents=True)
    (directory / "run.json").write_text("{}")
    (directory / "cells" / "01-a" / "series.parquet").write_bytes(bytes(range(256)) * 20_000)
    (directory / "cells" / "01-a" / "empty").touch()
    (directory / ".lock").write_text("1")
    return directory


def address(s3_address: str, name: str = NAME) -> str:
    return f"s3://{name}/team/a?region=us-east-1&scheme=http&endpoint_override={s3_address}"


def stored(s3: Any) -> dict[str, bytes]:
    listed = s3.list_objects_v2(Bucket=NAME).get("Contents", [])
    return {item["Key"]: s3.get_object(Bucket=NAME, Key=item["Key"])["Body"].read() for item in listed}


def test_a_copy_has_every_file_and_its_checksum(s3_address: str, s3: Any, run: Path) -> None:
    """Another client finds the same bytes; the list is what sha256sum reads. Locks are not for others."""
    done = Bucket(address(s3_address)).copy(run)
    assert (done.destination, done.files, done.unchanged) == (f"s3://{NAME}/team/a/{run.name}", 3, 0)
    result = stored(s3)
    base = f"team/a/{run.name}"
    names = ["cells/01-a/empty", "cells/01-a/series.parquet", "run.json"]
    assert set(result) == {f"{base}/{name}" for name in [*names, SUMS_FILE]}
    for name in names:
        assert result[f"{base}/{name}"] == (run / name).read_bytes()
    assert result[f"{base}/{SUMS_FILE}"].decode().splitlines() == [
        f"{hashlib.sha256((run / name).read_bytes()).hexdigest()}  {name}" for name in names
    ]


def test_a_second_copy_sends_what_has_changed_or_is_not_there(s3_address: str, s3: Any, run: Path) -> None:
    target = Bucket(address(s3_address))
    target.copy(run)
    (run / "run.json").write_text('{"more": 1}')
    s3.delete_object(Bucket=NAME, Key=f"team/a/{run.name}/cells/01-a/series.parquet")
    again = target.copy(run)
    assert (again.files, again.unchanged) == (2, 1)
    assert stored(s3)[f"team/a/{run.name}/run.json"] == b'{"more": 1}'
    assert target.copy(run).files == 0


def test_a_bucket_that_is_not_there_is_told_with_what_to_do(s3_address: str, run: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="does not exist") as raised:
        Bucket(address(s3_address, "no-such-bucket")).copy(run)
    assert "resume RUN --results-to" in raised.value.next_step


def test_bytes_that_come_back_otherwise_are_no_copy(
    s3_address: str, s3: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is named, and no list says that all is well."""
    real = transfers.upload

    def damaging(client: Any, name: str, key: str, stream: Any) -> StoredObject:
        """Store other bytes than it took."""
        answer = real(client, name, key, stream)
        s3.put_object(Bucket=name, Key=key, Body=stored(s3)[key].replace(b"{}", b"[]"))
        return answer

    monkeypatch.setattr(transfers, "upload", damaging)
    with pytest.raises(StepFailed, match=r"run\.json: the bucket gives back other bytes") as raised:
        Bucket(address(s3_address)).copy(run)
    assert hashlib.sha256(b"[]").hexdigest() in raised.value.evidence
    assert not any(key.endswith(SUMS_FILE) for key in stored(s3))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("/mnt/results", "s3://BUCKET/PREFIX"),
        ("s3:///prefix", "s3://BUCKET/PREFIX"),
        ("gs://bucket/x", "s3://BUCKET/PREFIX"),
        ("s3://bucket/x?regoin=eu-west-1", "s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "holds no credentials"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_asked(value: str, message: str) -> None:
    """A secret is not repeated."""
    with pytest.raises(UsageError, match=message) as raised:
        Bucket(value)
    assert "secret" not in str(raised.value)


def test_a_finished_run_is_copied_by_resume(
    s3_address: str, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the report that it leaves; the address may come from the environment, as in a cluster."""
    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"),), repeats=1))
    directory.journal.append("run_finished", failed=[])
    monkeypatch.setenv("VOLBENCH_RESULTS_TO", address(s3_address))
    ran = CliRunner().invoke(app, ["resume", str(directory.path)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert "each read back and compared" in ran.output
    result = stored(s3)
    assert result[f"team/a/{directory.path.name}/report.json"] == (directory.path / "report.json").read_bytes()


def test_a_bucket_that_takes_nothing_is_told_before_anything_runs(
    s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "execute", lambda *_, **__: pytest.fail("it ran"))
    arguments = ["run", str(SUITES / "quick.yaml"), "--volume", f"a=path:{tmp_path}", "--target", "local", "--yes"]
    arguments += ["--out", str(tmp_path / "results"), "--results-to", address(s3_address, "no-such-bucket")]
    with pytest.raises(MissingPrerequisite, match="could not be copied"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize("copies", [True, False])
def test_a_failed_run_is_copied_and_told_as_what_it_is(tmp_path: Path, copies: bool) -> None:
    """Whatever becomes of the copy, the cell's failure ends the command."""
    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"),), repeats=1))
    requests: list[Path] = []

    class Store(Bucket):
        def copy(self, run: Path) -> Copied:
            requests.append(run)
            if len(requests) > 1 and not copies:
                raise MissingPrerequisite("the bucket is gone")
            return Copied(destination="s3://x/y", files=1, size_bytes=1, unchanged=0)

    with (
        pytest.raises(StepFailed, match="the cell's own"),
        copied(directory, Store("s3://x/y"), lambda _: None),
    ):
        raise StepFailed("the cell's own")
    assert requests == [directory.path] * 2


def test_a_copy_is_made_when_the_next_cell_begins(tmp_path: Path) -> None:
    """A bucket that refuses in mid-run does not end the measurement."""
    copies: list[Path] = []
    messages: list[str] = []

    class Counting:
        def copy(self, run: Path) -> Copied:
            copies.append(run)
            if len(copies) == 2:
                raise MissingPrerequisite("the results could not be copied", where="s3://b", evidence="away")
            return Copied(destination="s3://b", files=1, size_bytes=1, unchanged=0)

    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"),)))
    observed: list[str] = []
    watch = copying(lambda state: observed.append(state.cell_id), directory, Counting(), messages.append)  # type: ignore[arg-type]
    for cell in ("1", "1", "2", "2", "3", "4"):
        state = CellState(number=int(cell), total=4, cell_id=cell, volume="a", elapsed_s=0.0, progress=None)
        watch(state)
    assert observed == ["1", "1", "2", "2", "3", "4"]
    assert copies == [directory.path] * 3, "after each of the first three cells; the last one's is that of the end"
    assert messages == ["not copied after cell 2: the results could not be copied: away"]
