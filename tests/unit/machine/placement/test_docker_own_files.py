"""The user's own files in containers: where they are mounted, and what is copied for a user without rights."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.core.records.cell import CellSpec, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_places import OWN, inside, outside
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replay import ReplayStep
from volbench.errors import UsageError
from volbench.machine.placement.docker import own_files
from volbench.machine.placement.docker.own_files import OwnMount, check_readable, in_containers, own_mounts
from volbench.machine.placement.interface import JobKind

UID = 12345
"""Of the containers: neither owner nor group of a file of the tests."""
LUA = "function event() end\n"


def cell(*, dataset: Path | None = None, script: Path | None = None, log: Path | None = None) -> CellSpec:
    steps = [OltpStep(name="own", test=str(script))] if script else []
    replays = [ReplayStep(name="log", log=str(log))] if log else []
    kind = "script" if dataset is not None and dataset.suffix == ".lua" else "dump"
    return CellSpec(
        run_id="r-abcdef",
        cell_id="01-a",
        suite="own",
        volume="a",
        block=0,
        repeat=1,
        seed=1,
        server=ServerSpec(),
        dataset=DatasetSpec.model_validate({"kind": kind, "path": str(dataset)}) if dataset else DatasetSpec(),
        steps=(*steps, *replays),
    )


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    return tmp_path / "copies"


def mounts(subject: CellSpec, copies: Path, kind: JobKind = "run") -> list[OwnMount]:
    def make() -> Path:
        copies.mkdir()
        return copies

    return own_mounts(in_containers(subject), kind, UID, make)


def write(path: Path, *, mode: int, directory_mode: int = 0o755, text: str = LUA) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    path.parent.chmod(directory_mode)
    return path


def test_a_file_has_one_place_in_every_container_and_results_have_the_users(tmp_path: Path) -> None:
    script = tmp_path / "own.lua"
    dump = Path("/srv/x/../dumps/shop.sql")
    placed = in_containers(cell(dataset=dump, script=script, log=tmp_path / "slow.log"))
    assert placed.dataset.path == f"{OWN}/srv/dumps/shop.sql"
    assert [step.parameters().get(key) for step, key in zip(placed.steps, ("test", "log"), strict=True)] == [
        str(script),
        f"{tmp_path}/slow.log",
    ]
    assert outside(inside(str(script))) == str(script)
    assert outside("oltp_read_only") == "oltp_read_only"
    assert outside("/volbench/owner.lua") == "/volbench/owner.lua"


def test_a_script_comes_with_its_directory(tmp_path: Path, copies: Path) -> None:
    script = write(tmp_path / "clone/own.lua", mode=0o644)
    assert mounts(cell(script=script), copies) == [
        OwnMount(source=script.parent, target=inside(str(script.parent)))
    ]
    assert not copies.exists()


def test_scripts_in_a_private_directory_are_mounted_each_by_itself(tmp_path: Path, copies: Path) -> None:
    script = write(tmp_path / "clone/own.lua", mode=0o644)
    module = write(tmp_path / "clone/keys.lua", mode=0o644, directory_mode=0o700)
    assert mounts(cell(script=script), copies) == [
        OwnMount(source=path, target=inside(str(path))) for path in (script, module)
    ]
    assert not copies.exists()


def test_a_script_that_others_may_not_read_is_copied_and_keeps_its_mode(tmp_path: Path, copies: Path) -> None:
    script = write(tmp_path / "clone/own.lua", mode=0o644)
    module = write(tmp_path / "clone/keys.lua", mode=0o600, text="-- keys\n")
    plain, copied = mounts(cell(script=script), copies)
    assert plain == OwnMount(source=script, target=inside(str(script)))
    assert copied.target == inside(str(module))
    assert copied.source.parent == copies
    assert copied.source.read_text() == "-- keys\n"
    status = copied.source.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_uid == (UID if os.geteuid() == 0 else os.getuid())
    assert stat.S_IMODE(module.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["run", "prepare"])
def test_what_a_dataset_is_loaded_from_is_that_of_the_agent_that_loads(
    tmp_path: Path, copies: Path, kind: JobKind
) -> None:
    """A file comes alone: what is beside it is none of the container's business."""
    dump = write(tmp_path / "dumps/shop.sql", mode=0o644, directory_mode=0o700)
    log = write(tmp_path / "dumps/slow.log", mode=0o640, directory_mode=0o700, text="# Time\n")
    made = mounts(cell(dataset=dump, log=log), copies, kind)
    targets = [mount.target for mount in made]
    assert targets == [inside(str(path)) for path in ([dump, log] if kind == "prepare" else [log])]
    assert made[-1].source.read_text() == "# Time\n"
    assert made[-1].source.is_relative_to(copies)
    assert all(mount.source == dump for mount in made[:-1])


def test_a_dump_of_several_files_is_copied_whole(tmp_path: Path, copies: Path) -> None:
    write(tmp_path / "dump/metadata", mode=0o640, directory_mode=0o750)
    (tmp_path / "dump/part").mkdir(mode=0o700)
    write(tmp_path / "dump/part/shop.sql", mode=0o640, directory_mode=0o700)
    (mount,) = mounts(cell(dataset=tmp_path / "dump"), copies, "prepare")
    assert mount.target == inside(str(tmp_path / "dump"))
    assert sorted(str(path.relative_to(mount.source)) for path in mount.source.rglob("*")) == [
        "metadata",
        "part",
        "part/shop.sql",
    ]
    assert (mount.source / "part/shop.sql").read_text() == LUA


def test_a_link_is_followed_and_keeps_its_name(tmp_path: Path, copies: Path) -> None:
    real = write(tmp_path / "real/2026.sql", mode=0o644)
    (tmp_path / "current.sql").symlink_to(real)
    (mount,) = mounts(cell(dataset=tmp_path / "current.sql"), copies, "prepare")
    assert mount == OwnMount(source=real, target=inside(str(tmp_path / "current.sql")))


def test_what_is_too_large_to_copy_is_refused_with_the_command_that_opens_it(
    tmp_path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = write(tmp_path / "shop.sql", mode=0o640)
    check_readable(dump, UID, where="dataset.path")
    monkeypatch.setattr(own_files, "COPIED_BYTES_MAX", 4)
    with pytest.raises(UsageError) as refused:
        check_readable(dump, UID, where="own.yaml: dataset.path")
    assert refused.value.where == "own.yaml: dataset.path"
    assert f"{dump} has mode 0640" in refused.value.evidence
    assert f"chmod o+r {dump}" in refused.value.next_step
    with pytest.raises(UsageError, match="the containers' user cannot read the file"):
        mounts(cell(dataset=dump), copies, "prepare")
    assert not copies.exists()
    dump.chmod(0o644)
    check_readable(dump, UID, where="dataset.path")


def test_a_private_data_directory_is_not_copied(tmp_path: Path) -> None:
    """A server may run on it: whoever makes a copy asks it."""
    write(tmp_path / "data/ibdata1", mode=0o640, directory_mode=0o750)
    with pytest.raises(UsageError, match="a data directory is not copied") as refused:
        check_readable(tmp_path / "data", UID, where="dataset.path")
    assert f"chmod -R o+rX {tmp_path}/data" in refused.value.next_step


def test_a_file_that_is_gone_is_named(tmp_path: Path, copies: Path) -> None:
    with pytest.raises(UsageError, match="a file of your own cannot be read"):
        mounts(cell(log=tmp_path / "gone.log"), copies)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter, as a container has."""
    directory = Path(tempfile.mkdtemp(prefix="volbench-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"),
    reason="needs root, unshare and setpriv",
)
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_user_without_rights_reads_a_mounted_file_of_a_private_directory(
    tmp_path: Path, copies: Path, public: Path, mode: int
) -> None:
    """By the kernel: a mount is reached without the directories above its source; its own mode counts."""
    log = write(tmp_path / "private/slow.log", mode=mode, directory_mode=0o700, text="# Time\n")
    (mount,) = mounts(cell(log=log), copies)
    (public / "slow.log").touch()
    read = 'mount --bind "$1" "$2" && exec setpriv --reuid="$3" --regid="$3" --clear-groups cat "$4"'

    def as_container(path: Path) -> subprocess.CompletedProcess[str]:
        arguments = [str(mount.source), str(public / "slow.log"), str(UID), str(path)]
        argv = ["unshare", "--mount", "sh", "-c", read, "sh", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    assert as_container(public / "slow.log").stdout == "# Time\n"
    assert "Permission denied" in as_container(log).stderr
