"""CloudWatch's answer for the gp2 volume of tests/fixtures/sar: `python tests/support/credit_exhaustion.py FILE`.

sar's text is a real server's; its volume's CloudWatch metrics are gone. What the report of that day says of them is
this: reads rose at 14:00, the balance was 0 at 14:40, the source of the reads was never found. The figures here are
the arithmetic of a gp2 volume of 50 GiB (Amazon EBS User Guide: 150 IOPS, 5,400,000 credits) under reads that
empty the bucket in those 40 minutes, beside the writes that sar counted. Times are UTC, sar's are Japan's.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SAR = Path(__file__).parents[1] / "fixtures" / "sar" / "sar-b-japanese.txt"
PERIOD_S = 300
ZONE_S = 9 * 3600
BASELINE, CAPACITY = 150.0, 5_400_000.0
RISE_S, EMPTY_S = 14 * 3600, 14 * 3600 + 40 * 60
DATE = "2017-10-17"
_ROW = re.compile(r"(\d\d)時(\d\d)分\d\d秒 +[\d.]+ +([\d.]+) +([\d.]+)")


def writes_of_sar() -> dict[int, float]:
    """Writes per second by the end of their ten minutes, in seconds of the day."""
    rows = (_ROW.match(line) for line in SAR.read_text(encoding="utf-8").splitlines())
    return {int(row[1]) * 3600 + int(row[2]) * 60: float(row[4]) for row in rows if row}


def periods() -> Iterator[tuple[int, float, float, float]]:
    """Start in seconds of the day, reads and writes of the period, and the mean balance in percent."""
    left = CAPACITY
    reads_while_full = BASELINE + CAPACITY / (EMPTY_S - RISE_S)
    for end_s, writes in writes_of_sar().items():
        for start_s in (end_s - 2 * PERIOD_S, end_s - PERIOD_S):
            served = writes
            if start_s >= RISE_S:
                served = reads_while_full if start_s < EMPTY_S else BASELINE
            after = min(CAPACITY, max(0.0, left + (BASELINE - served) * PERIOD_S))
            yield start_s, (served - writes) * PERIOD_S, writes * PERIOD_S, 50 * (left + after) / CAPACITY
            left = after


def answer() -> dict[str, list[dict[str, object]]]:
    """What `aws cloudwatch get-metric-data` prints for the three classic metrics."""
    rows = list(periods())
    stamps = [f"{DATE}T{(s - ZONE_S) // 3600:02d}:{(s - ZONE_S) // 60 % 60:02d}:00+00:00" for s, *_ in rows]
    columns = {"VolumeReadOps": 1, "VolumeWriteOps": 2, "BurstBalance": 3}
    results: list[dict[str, object]] = [
        {
            "Id": f"m{at}",
            "Label": name,
            "Timestamps": stamps,
            "Values": [round(row[at], 2 if at == 3 else 0) for row in rows],
            "StatusCode": "Complete",
        }
        for name, at in columns.items()
    ]
    return {"MetricDataResults": results}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(answer(), indent=1) + "\n", encoding="utf-8")
