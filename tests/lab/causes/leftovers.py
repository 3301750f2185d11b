"""What a lab that was killed has left on this machine: processes, mounts, loop devices, control groups, runs.

All is found by what only the lab makes, wherever its `--out` is: mounts and loop devices by the directory of the
lane that they are of, servers and containers by the run that they are of.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from causes.machine import LANE, Machine, run
from causes.network import remove_rules
from causes.runner import DONE_FILE, RESULTS, SETUP_FILE
from score_files import say
from volbench.errors import VolbenchError
from volbench.measure.session.targets import make_target
from volbench.results.store.run_directory import RunDirectory

LOCKS = Path("/run/lock")
_MADE_BY_LAB = re.compile(r"^(/.*)/lane-([^/]+)/(mnt|volume\.img|nbd/disk)( \(deleted\))?$")
"""What a lane mounts, or a loop device has as its file: the lab's directory, and the lane."""


@contextmanager
def only_lab(locks: Path | None = None) -> Iterator[None]:
    """Hold the lane, so that nothing of a lab that works is removed. Raises RuntimeError where another holds it."""
    with ((locks or LOCKS) / f"volbench-lab-{LANE}").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(
                f"a lab works in lane {LANE}; VOLBENCH_CAUSES_LANE gives this one another lane"
            ) from error
        yield


def clean(out: Path) -> None:
    """Remove what killed labs of this lane have left; results stay.

    Args:
        out: where its runs are; directories of others of this lane are found by what they have mounted.
    """
    remove_rules()
    directories = {(out, LANE), *places_in_use()}
    for root in sorted(root for root, lane in directories if lane == LANE):
        Machine(root).clean_up()
        for directory in unfinished(root):
            clean_runs(directory)
    for lane in sorted({lane for _, lane in directories} - {LANE}):
        say(f"lane {lane} has mounts or loop devices: VOLBENCH_CAUSES_LANE={lane} python -m causes clean")


def places_in_use(mounts: Path = Path("/proc/self/mounts")) -> set[tuple[Path, str]]:
    """Directories of labs that have mounts or loop devices, each with its lane."""
    mounted = [line.split(" ")[1].replace(r"\040", " ") for line in mounts.read_text().splitlines()]
    files = [
        line.strip() for line in run("losetup", "--list", "--noheadings", "--output", "BACK-FILE").splitlines()
    ]
    matches = map(_MADE_BY_LAB.match, (*mounted, *files))
    return {(Path(match[1]), match[2]) for match in matches if match is not None}


def unfinished(root: Path) -> Iterator[Path]:
    """Yield directories of setups that began and did not end."""
    for setup in sorted(root.glob(f"seed-*/*/*/{SETUP_FILE}")):
        if not (setup.parent / DONE_FILE).exists():
            yield setup.parent


def clean_runs(directory: Path) -> None:
    """Remove servers, containers and directories of the runs of a setup, as volbench does at a run's end."""
    for path in sorted((directory / RESULTS).glob("*")):
        try:
            target, _ = make_target(RunDirectory.open(path).run)
            target.clean_up()
        except VolbenchError as error:
            say(f"{path}: {error}")
