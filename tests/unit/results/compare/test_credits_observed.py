"""A dump at the speed that a history shows, on the sar report of the volume whose credits had run out."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.results.credits.history import Defaults, History
from volbench.results.credits.observed import observed_dump
from volbench.results.credits.sources import read_history

HELD_BACK = """Linux 3.2.0 (web)  01/15/17  _x86_64_  (1 CPU)

00:00:01          DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util
14:20:01     dev202-0      4.36      0.05    116.08     26.61      0.01      1.27      0.68      0.30
14:30:01     dev202-0      2.61      0.00     59.40     22.76      0.00      0.89      0.60      0.16
14:40:01     dev202-0      4.49      0.00    122.60     27.31      0.01      1.34      0.64      0.29
14:50:01     dev202-0      2.66      0.21     64.14     24.15      0.46    173.63     97.19     25.90
15:00:01     dev202-0      3.06      4.27     71.19     24.65      1.32    430.05    209.04     63.99
15:10:01     dev202-0      2.60      0.00     66.55     25.58      1.09    420.35    228.40     59.42
15:40:01     dev202-0     10.24    151.76   1041.63    116.55     10.22    997.61     97.59     99.92
15:50:01     dev202-0      5.91     72.38    117.70     32.19      2.67    452.37    169.39    100.04
16:00:01     dev202-0      5.66     72.50    102.02     30.81      2.47    436.55    176.62    100.06
16:10:01     dev202-0      5.14     72.72     81.14     29.92      2.23    432.91    194.56    100.05
16:20:01     dev202-0      5.52     76.63     92.67     30.66      2.45    444.67    181.22    100.06
16:30:01     dev202-0      4.93     72.77     69.06     28.79      2.11    428.94    203.06    100.03
"""
"""Figures of a field report of 2017: gp2 of 50 GB, its credits gone at 14:40, a dump of 3.6 GB from 15:40."""


def history_of(tmp_path: Path, text: str) -> History:
    file = tmp_path / "sar.txt"
    file.write_text(text)
    return read_history(file, Defaults())


def test_the_dump_takes_a_day_at_the_speed_that_the_report_shows(tmp_path: Path) -> None:
    observed = observed_dump(history_of(tmp_path, HELD_BACK), 3.6e9, window_s=4 * 3600)
    assert observed is not None
    assert observed.read_bytes_per_s == pytest.approx(72.7 * 512, rel=0.01)  # 37 kB/s
    assert observed.takes_s / 3600 == pytest.approx(27, abs=0.5)
    assert observed.fits is False
    assert observed.intervals == 6  # idle ones in which something else waited do not count


def test_a_volume_that_nobody_waits_for_says_nothing(tmp_path: Path) -> None:
    calm = "\n".join(line for line in HELD_BACK.splitlines() if not line.startswith(("14:50", "15", "16")))
    assert observed_dump(history_of(tmp_path, calm + "\n"), 3.6e9) is None
