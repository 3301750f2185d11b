"""The control groups of a cell's containers, as the agent in one of them sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.cell import CellPlaces
from volbench.measure.execute.cell import server_accounts

SERVER = "0::/docker/server\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's groups of version 2, mounted into the agent's container, and that container's own."""
    machine, own = tmp_path / "volbench/cgroup", tmp_path / "sys/fs/cgroup"
    for group in (machine, machine / "docker", machine / "docker/server", machine / "docker/agent", own):
        group.mkdir(parents=True)
        (group / "cgroup.procs").touch()
        (group / "cgroup.controllers").write_text("cpu io memory\n")
        (group / "cpu.stat").write_text("usage_usec 1\n")
    for group in (machine / "docker/server", machine / "docker/agent", own):
        (group / "cpu.max").write_text("max 100000\n")
        (group / "io.stat").touch()
    (tmp_path / "control").mkdir()
    (tmp_path / "control/cgroup").write_text(SERVER)
    monkeypatch.setattr(server_accounts, "CGROUP_ROOTS", (machine, own))
    monkeypatch.setattr(server_accounts, "CGROUPS", own)
    monkeypatch.setattr(server_accounts, "OWN_GROUP_FILE", tmp_path / "own")
    return tmp_path


def accounts(engine: Path, own: str) -> server_accounts.ServerAccounts:
    (engine / "own").write_text(own)
    places = CellPlaces(
        volume_dir="/v", data_dir="/v/data", control_dir=str(engine / "control"), template_dir="/t",
        scratch_dir="/s", supervisor="waiting",
    )  # fmt: skip
    return server_accounts.accounts_of(places)


def test_a_client_in_a_namespace_of_its_own_has_its_account_at_the_root(engine: Path) -> None:
    """Docker gives each container one where control groups are of version 2: /proc/self/cgroup is `0::/` there."""
    client = accounts(engine, "0::/\n").client_cpu
    assert client == (str(engine / "sys/fs/cgroup/cpu.stat"),)


def test_a_client_in_the_machines_namespace_is_seen_by_its_path(engine: Path) -> None:
    client = accounts(engine, "0::/docker/agent\n").client_cpu
    assert client == (str(engine / "volbench/cgroup/docker/agent/cpu.stat"),)


def test_the_servers_groups_are_those_that_the_target_wrote(engine: Path) -> None:
    server = accounts(engine, "0::/\n")
    assert server.server_io == str(engine / "volbench/cgroup/docker/server")
    assert server.server_cpu == (str(engine / "volbench/cgroup/docker/server/cpu.stat"),)
