"""The truth about a pair of emulated volumes, by a program that is not volbench's: fio's random reads of a page."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 3
READ_S = 5


def measured_ratio(profile: Path, iops: tuple[int, int], where: Path) -> float:
    """Return the second volume's reads a second over the first one's: medians of reads in turn, ABBA."""
    names = [f"truth-{value}" for value in iops]
    directories = [where / name / "data" for name in names]
    for name in names:  # of a call that was killed
        volume("remove", str(where / name), check=False)
    try:
        for name, value in zip(names, iops, strict=True):
            volume("emulate", f"emulated:{profile}?iops={value}", "--name", name, "--dir", str(where))
        rates: tuple[list[float], list[float]] = ([], [])
        for number in range(ROUNDS):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                rates[side].append(reads_per_s(directories[side]))
        return round(statistics.median(rates[1]) / statistics.median(rates[0]), 4)
    finally:
        for name in names:
            volume("remove", str(where / name), check=False)


def reads_per_s(directory: Path) -> float:
    """Return the rate of random reads of 16 KiB past the page cache, 8 at a time."""
    fio = shutil.which("fio") or "fio"
    command = [fio, "--name=truth", f"--filename={directory}/truth.bin", "--size=256M", "--rw=randread", "--bs=16k"]
    command += ["--direct=1", "--ioengine=libaio", "--iodepth=8", f"--runtime={READ_S}", "--time_based"]
    command += ["--output-format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rate: float = json.loads(done.stdout)["jobs"][0]["read"]["iops"]
    return rate


def volume(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Call `volbench volume`."""
    command = [sys.executable, "-m", "volbench", "volume", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=300)
