"""The copy phase of small_files against `cp -r` on the same disk: the tool must not be what is measured.

Run it: `python tests/benchmarks/small_files.py [--dir /var/tmp] [--files 38000] [--mb 800] [--rounds 5]`; exit 1 is
above 1.2 times the time of cp. Both copy the same tree out of the page cache and sync nothing; they take turns and
go first in turn, and the best round of each counts, since whatever else the machine does can only add time. Each
round begins with the machine's caches dropped where that is permitted (see `machine/volume/deleted_inodes.py`),
and the tree read once: after the removal of a round's files cp took ten times as long on ext4.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from volbench.core.records.steps.small_files import SmallFilesStep
from volbench.machine.volume.deleted_inodes import forget_deleted_inodes
from volbench.measure.workload.file_steps.file_tree import (
    Content,
    SmallFile,
    copy_job,
    create_job,
    folders_of,
    planned_tree,
    read_job,
)
from volbench.measure.workload.timed import timed_operations

RATIO_MAX = 1.2


def make_tree(directory: Path, *, files: int, mb: int) -> list[SmallFile]:
    """The step's own tree, written and in the page cache."""
    step = SmallFilesStep(files=files, total_size_bytes=mb * 10**6)
    tree = planned_tree(step, directory, seed=1)
    for folder in folders_of(tree):
        Path(folder).mkdir(parents=True)
    create = create_job(Content(max(file.size for file in tree), seed=1), fsync=False)
    for file in tree:
        create(file)
    return tree


def make_folders(folders: Iterable[str], source: Path, target: Path) -> None:
    for folder in folders:
        Path(str(target) + folder.removeprefix(str(source))).mkdir(parents=True)


def cp(tree: list[SmallFile], source: Path, target: Path) -> None:
    """What people type; without a clone of the bytes, where the filesystem could."""
    del tree
    subprocess.run(["cp", "-r", "--reflink=never", "--", str(source), str(target)], check=True)


def own_directory(tree: list[SmallFile], source: Path, target: Path) -> None:
    """The step's copy phase with one job, as it runs in a cell."""
    timed_operations(
        tree,
        [copy_job(str(source), str(target), fsync=False)],
        label="copy",
        timeout_s=600,
        cancelled=threading.Event(),
        on_progress=lambda _: None,
        begin=lambda: make_folders(folders_of(tree), source, target),
    )


def without_deleted_inodes(tree: list[SmallFile], directory: Path) -> None:
    if forget_deleted_inodes(directory):
        read = read_job()
        for file in tree:
            read(file)


def main() -> int:
    """Compare, and say by how much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--files", type=int, default=38_000)
    parser.add_argument("--mb", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    copies: dict[str, Callable[[list[SmallFile], Path, Path], None]] = {"cp -r": cp, "small_files": own_directory}
    times: dict[str, list[float]] = {name: [] for name in copies}
    with tempfile.TemporaryDirectory(prefix="volbench-small-files-", dir=options.dir) as name:
        directory = Path(name)
        tree = make_tree(directory / "tree", files=options.files, mb=options.mb)
        for number in range(options.rounds):
            for who in sorted(copies, reverse=bool(number % 2)):
                without_deleted_inodes(tree, directory)
                begun_s = time.monotonic()
                copies[who](tree, directory / "tree", directory / "copy")
                times[who].append(time.monotonic() - begun_s)
                shutil.rmtree(directory / "copy")
                subprocess.run(
                    ["sync", "-f", str(directory)], check=True
                )  # so that no round writes another's bytes
    best = {who: min(of) for who, of in times.items()}
    ratio = best["small_files"] / best["cp -r"]
    print(f"{options.files} files, {options.mb} MB: " + ", ".join(f"{who} {s:.2f} s" for who, s in best.items()))
    print(f"small_files takes {ratio:.2f} times as long as cp -r (at most {RATIO_MAX})")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
