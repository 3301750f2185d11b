"""Copying a template against `cp -a` on the same disk: the ratio of their speeds, both until the data is durable.

Run it: `python tests/benchmarks/template_copy.py [--dir /var/tmp] [--mib 1024] [--rounds 5]`; exit 1 is below 80 %.
`cp -a` is given its `sync -f`, since copy_tree returns only when the copy is on the device; without that the
comparison would be between a disk and a page cache. The two take turns and go first in turn; the best round of each
counts, since whatever else the machine does can only add time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from volbench.machine.volume.coldness import evict
from volbench.machine.volume.copying import copy_tree

RATIO_MIN = 0.8
_SMALL_FILES = 100


def make_template(directory: Path, mib: int) -> None:
    """Files of a data directory's sizes: large tables, redo logs, many small ones; bytes do not compress."""
    sizes_mib = {"ibdata1": mib // 16, "undo_001": mib // 64, "redo_1": mib // 8, "sbtest1.ibd": mib // 2}
    sizes_mib["sbtest2.ibd"] = mib - sum(sizes_mib.values())
    block = os.urandom(1 << 20)
    (directory / "small").mkdir(parents=True)
    for name, size in sizes_mib.items():
        with (directory / name).open("wb") as file:
            for _ in range(size):
                file.write(block)
    for number in range(_SMALL_FILES):
        (directory / "small" / f"{number}.ibd").write_bytes(block[: 112 << 10])


def cp(source: Path, destination: Path) -> None:
    """What an administrator would type, then made durable."""
    subprocess.run(["cp", "-a", "--", str(source), str(destination)], check=True)
    subprocess.run(["sync", "-f", str(destination)], check=True)


def own_directory(source: Path, destination: Path) -> None:
    """The product's copy."""
    copy_tree(source, destination)


def timed(copy: Callable[[Path, Path], None], source: Path, directory: Path) -> float:
    """Seconds of one copy that starts with nothing of the source in memory."""
    for file in source.rglob("*"):
        if file.is_file():
            evict(file)
    destination = directory / "copy"
    started_s = time.monotonic()
    copy(source, destination)
    seconds = time.monotonic() - started_s
    shutil.rmtree(destination)
    os.sync()
    return seconds


def main() -> int:
    """Measure and print; 1 when copy_tree is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {"cp -a": [], "copy_tree": []}
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="volbench-copy-") as name:
        directory = Path(name)
        make_template(directory / "template", arguments.mib)
        os.sync()
        for number in range(arguments.rounds):
            turn = [("cp -a", cp), ("copy_tree", own_directory)]
            for label, copy in turn if number % 2 == 0 else reversed(turn):
                seconds[label].append(timed(copy, directory / "template", directory))
    for label, values in seconds.items():
        text = ", ".join(f"{value:.2f}" for value in values)
        sys.stdout.write(f"{label:10} {arguments.mib / statistics.median(values):7.0f} MiB/s  ({text} s)\n")
    ratio = min(seconds["cp -a"]) / min(seconds["copy_tree"])
    sys.stdout.write(f"copy_tree runs at {ratio:.0%} of cp -a (at least {RATIO_MIN:.0%} wanted)\n")
    return 0 if ratio >= RATIO_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
