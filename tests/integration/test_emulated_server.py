"""A database server on emulated volumes: killed and without power, it recovers what the volume promised."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from server_on_volume import Flavor, Lived, live_through, volume_of

from volbench.core.profile.files import profile_names
from volbench.machine.placement.capabilities import SEARCH_PATH

pytestmark = pytest.mark.emulator

TABLE_VARIABLE = "VOLBENCH_SERVERS_TABLE"
FLAVORS: tuple[Flavor, ...] = ("mysql", "mariadb")
LOCAL: Flavor = "mariadb" if shutil.which("mariadbd", path=SEARCH_PATH) else "mysql"
LOAD_S = 2.0
"""Long enough for commits; rates are measured over more, by the slow test of all profiles."""
#: One of each kind: block, files, files whose commits are promises only.
KINDS = [("ebs-gp3", {"filesystem": "ext4"}), ("efs-elastic", {}), ("fsx-openzfs", {"mode": "async"})]
ALL = [*((name, {}) for name in profile_names()), ("fsx-openzfs", {"mode": "async"})]
HEAD = (
    "| profile | an acknowledged write is | server | start s | transactions/s | recovery s after SIGKILL "
    "| recovery s after a power cut | commits acknowledged | lost by SIGKILL | lost by the power cut |"
)
TEXT = """# Servers on emulated volumes

What `make test-profiles` saw: each server, in a container, starts on a volume of each profile (as small as may be),
works with four connections, is killed, recovers, works, loses its power, and recovers. `async` is an export that
says yes before it has written: it loses commits, and must. Seconds and rates are of a machine with 2 cores that
had other work; the counts are what the test is about.
"""


def row_of(lived: Lived) -> str:
    speeds = (lived.start_s, lived.transactions_per_s, lived.crash_recovery_s, lived.power_recovery_s)
    counts = (lived.acknowledged, lived.lost_by_crash, lived.lost_by_power_cut)
    cells = [
        lived.profile,
        lived.durability.replace("_", " "),
        f"{lived.flavor} {lived.version}",
        *(f"{number:.1f}" for number in speeds),
        *(f"{number:,}" for number in counts),
    ]
    return f"| {' | '.join(cells)} |"


def write_down(lived: Lived) -> None:
    """Put a row into the table of the file that VOLBENCH_SERVERS_TABLE names, in the place of an older one."""
    if not (expected := os.environ.get(TABLE_VARIABLE)):
        return
    file = Path(expected)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as table:
        fcntl.flock(table, fcntl.LOCK_EX)  # several sessions may share the work
        table.seek(0)
        rows = {tuple(row.split(" | ")[:3]): row for row in table.read().splitlines() if row.startswith("| ")}
        new = row_of(lived)
        rows[tuple(new.split(" | ")[:3])] = new
        rows.pop(tuple(HEAD.split(" | ")[:3]), None)
        table.truncate(0)
        table.write("\n".join([TEXT, HEAD, f"|{'---|' * HEAD.count(' | ')}---|", *sorted(rows.values()), ""]))


def check(lived: Lived) -> None:
    """No crash of the server loses a commit, and a power cut only where acknowledged is not durable."""
    assert lived.acknowledged > 0
    assert lived.lost_by_crash == 0
    if lived.durability == "async":
        assert lived.lost_by_power_cut > 0
    else:
        assert lived.lost_by_power_cut == 0


@pytest.mark.docker
@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("profile", "options"), KINDS, ids=["block", "files", "async"])
def test_a_server_in_a_container_keeps_what_the_volume_promises(
    base: Path, profile: str, options: dict[str, str], flavor: Flavor
) -> None:
    check(live_through(volume_of(profile, base, **options), base, flavor, load_s=LOAD_S))


@pytest.mark.mysqld
def test_a_server_of_this_machine_keeps_what_the_volume_promises(base: Path) -> None:
    check(live_through(volume_of("ebs-gp3", base), base, LOCAL, in_docker=False, load_s=LOAD_S))


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize(
    ("profile", "options"), ALL, ids=["-".join([name, *input_value.values()]) for name, input_value in ALL]
)
def test_every_profile_carries_both_servers(
    base: Path, profile: str, options: dict[str, str], flavor: Flavor
) -> None:
    lived = live_through(volume_of(profile, base, **options), base, flavor)
    write_down(lived)
    check(lived)
