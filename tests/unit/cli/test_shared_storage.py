"""`plan` and `run` on two directories of one disk: what is said, and what is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from volbench.cli import console
from volbench.cli.runs import run as run_command
from volbench.cli.runs.plan import show_plan
from volbench.errors import Refused, UsageError
from volbench.machine.volume.kinds.path import check_directory
from volbench.measure.session.caveats import caveats_of, needs_consent, storage_caveats, volumes_share_storage
from volbench.measure.session.planner import Planned, make_plan
from volbench.measure.session.servers import TargetRequest

QUICK = Path(__file__).parents[3] / "suites" / "quick.yaml"


def planned(a: Path, b: Path) -> Planned:
    return make_plan(QUICK, [f"a=path:{a}", f"b=path:{b}"], TargetRequest(target="local"))


@pytest.fixture
def forgotten(tmp_path: Path) -> Planned:
    """Two directories into which nothing was mounted."""
    for name in ("gp3", "io2"):
        (tmp_path / name).mkdir()
    return planned(tmp_path / "gp3", tmp_path / "io2")


def test_a_plan_says_that_volumes_share_storage(
    forgotten: Planned, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shared, *unmounted = storage_caveats(forgotten.run)
    assert shared.startswith("Volumes a and b lie on the same file system (")
    assert [text.split(";")[0] for text in unmounted] == [
        f"Volume a: {tmp_path}/gp3 is not a mount point",
        f"Volume b: {tmp_path}/io2 is not a mount point",
    ]
    show_plan(forgotten)
    assert "caveat: Volumes a and b lie on the same" in capsys.readouterr().out


def test_a_plan_says_that_a_directory_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    missing, *_ = storage_caveats(planned(tmp_path / "a", tmp_path / "b").run)
    assert missing == f"Volume a: {tmp_path}/a does not exist on this machine. Mount the volume there."


def test_a_plan_says_that_a_volume_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").mkdir()
    caveat, *_ = storage_caveats(planned(tmp_path / "a", tmp_path / "b").run)
    assert caveat == f"Volume a: {tmp_path}/a is not a directory. Name the directory of the volume."


@pytest.mark.parametrize(("pool", "warned"), [("32M", False), ("64M", True), ("1G", True), ("nonsense", True)])
def test_a_plan_warns_of_data_that_fit_in_the_buffer_pool(tmp_path: Path, pool: str, warned: bool) -> None:
    """quick has 54 MiB; what is no size is the server's to refuse, and counts as its default of 128 MiB."""
    plan = make_plan(
        QUICK,
        [f"a=path:{tmp_path}"],
        TargetRequest(target="local"),
        settings=[f"engine.config.innodb_buffer_pool_size={pool}"],
    )
    assert (
        any("fit in the buffer pool" in caveat for caveat in caveats_of(plan.run, plan.cost.volume_bytes)) is warned
    )


@pytest.mark.parametrize(("same", "default"), [(False, False), (True, True)])
def test_run_asks_and_enter_means_no(
    forgotten: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool, default: bool
) -> None:
    """A directory named twice is a comparison with itself on purpose: that is said and not asked."""
    requests: list[dict[str, Any]] = []

    def answer(text: str, **options: Any) -> bool:
        requests.append({"text": text, **options})
        return False

    monkeypatch.setattr(typer, "confirm", answer)
    monkeypatch.setattr(console, "interactive", lambda: True)
    volumes = [f"a=path:{tmp_path}/gp3", f"b=path:{tmp_path}/{'gp3' if same else 'io2'}"]
    with pytest.raises(typer.Exit) as ended:
        run_command.run(QUICK, volumes, target="local", out=tmp_path / "results")
    assert ended.value.exit_code == 1
    assert [request["default"] for request in requests] == [default]
    assert not (tmp_path / "results").exists()


def test_volumes_of_other_file_systems_share_nothing(tmp_path: Path) -> None:
    """/dev/shm is a file system of its own, wherever temporary files are."""
    if Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("temporary files are in /dev/shm")
    assert not volumes_share_storage(planned(tmp_path, Path("/dev/shm")).run)


def test_a_plan_says_which_disk_is_too_small_for_a_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated volume's disk is that of its directory, which need not exist yet; a cell needs over 400 MiB."""
    (tmp_path / "b").mkdir()
    volumes = [f"gp3=emulated:ebs-gp3?dir={tmp_path}/new/a", f"b=path:{tmp_path}/b"]
    free = {"bytes": 10 * 2**30}
    monkeypatch.setattr("volbench.measure.session.space.free_bytes", lambda _: free["bytes"])
    plan = make_plan(QUICK, volumes, TargetRequest(target="local"))
    assert not [line for line in caveats_of(plan.run, plan.cost.volume_bytes) if "a cell needs" in line]
    free["bytes"] = 300 * 2**20
    emulated, path = [line for line in caveats_of(plan.run, plan.cost.volume_bytes) if "a cell needs" in line]
    assert emulated.startswith("Volume gp3: a cell needs about ")
    assert f"and {tmp_path}, which holds the data of an emulated volume, has 300 MiB free." in emulated
    assert f"and {tmp_path}/b, which holds the volume," in path
    show_plan(plan)
    assert "caveat: Volume gp3: a cell needs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "directory", ["/etc", "/etc/mysql", "/", "//", "/usr/../etc", "/proc", "/dev/sda", "/lib/x"]
)
def test_a_directory_of_the_system_is_refused(directory: str) -> None:
    for spec in (f"path:{directory}", directory):
        with pytest.raises(UsageError, match=r"name (a directory|one) for data"):
            make_plan(QUICK, [f"a={spec}"], TargetRequest(target="local"))


def test_a_link_to_a_directory_of_the_system_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("/etc")
    with pytest.raises(Refused, match="belongs to the system"):
        check_directory(tmp_path / "data", where="a")


def test_a_word_without_a_kind_is_refused_with_both_readings() -> None:
    with pytest.raises(UsageError, match=r"says no kind of volume(.|\n)*path:DIR") as refused:
        make_plan(QUICK, ["disk=DIR"], TargetRequest(target="local"))
    assert "emulated" in refused.value.next_step


def test_a_directory_without_path_and_without_a_mount_is_asked_about(tmp_path: Path) -> None:
    """`--volume disk=/var/tmp/typo` may be a name that was cut off; a mount point is none."""
    bare = make_plan(QUICK, [f"a={tmp_path}"], TargetRequest(target="local"))
    stated = make_plan(QUICK, [f"a=path:{tmp_path}"], TargetRequest(target="local"))
    assert (needs_consent(bare.run), needs_consent(stated.run)) == (True, False)
    assert not needs_consent(make_plan(QUICK, ["a=/dev/shm"], TargetRequest(target="local")).run)
