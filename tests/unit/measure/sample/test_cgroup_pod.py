"""A container of a pod sees its own control group as the root of the hierarchy."""

from __future__ import annotations

from pathlib import Path

from volbench.measure.sample.cgroup.cgroup_pod import cgroup_root_of, own_cpu_files, own_io_directory
from volbench.measure.sample.host.psi import Pressure


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_version_2_has_all_accounts_in_one_directory(tmp_path: Path) -> None:
    for name in ("cpu.max", "cpu.stat", "io.stat"):
        put(tmp_path / name)
    assert own_cpu_files(tmp_path) == (str(tmp_path / "cpu.stat"),)
    assert own_io_directory(tmp_path) == tmp_path


def test_version_1_has_a_cpu_account_and_none_of_io(tmp_path: Path) -> None:
    put(tmp_path / "cpu" / "cpu.stat")
    put(tmp_path / "cpuacct" / "cpuacct.usage")
    assert own_cpu_files(tmp_path) == (str(tmp_path / "cpu/cpu.stat"), str(tmp_path / "cpuacct/cpuacct.usage"))
    assert own_io_directory(tmp_path) is None


def test_what_cannot_be_seen_is_absent(tmp_path: Path) -> None:
    assert own_cpu_files(tmp_path / "none") == ()
    assert own_io_directory(cgroup_root_of(1) / "none") is None


def test_pressure_of_the_servers_group_is_beside_the_machines(tmp_path: Path) -> None:
    """Under its own entity; without the group's files there is the machine's alone."""
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
    for resource in ("cpu", "io", "memory"):
        put(tmp_path / "machine" / resource, text.format(100, 10))
        put(tmp_path / "group" / f"{resource}.pressure", text.format(40, 4))
    both = Pressure(tmp_path / "machine", tmp_path / "group").read()
    assert both["io_some_us", ""] == 100
    assert both["io_some_us", "server"] == 40
    assert Pressure(tmp_path / "machine", tmp_path / "none").read().keys() == {key for key in both if key[1] == ""}
