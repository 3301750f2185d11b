"""Write suites/volumes/ec2-instances.csv from dated copies of the vendor's tables of EBS limits.

Usage: python -m release.ec2_limits COPY.md... > suites/volumes/ec2-instances.csv, the newest copy first

A copy is the text of "Amazon EC2: Instance Types", section "Amazon EBS specifications" of each family, or of
"Amazon EBS-optimized instance types". A row has the type, bandwidth in Mbps, throughput in MB/s and operations a
second, each as `baseline / maximum` or as one. Line breaks of the document's columns leave spaces in names, and
footnote marks stand beside them. A row counts only where its throughput is an eighth of its bandwidth: the columns
check each other.

Copies of the second document may have lost what divides their cells (`m5.large 1650475081.25593.75360018750`: 650,
4750, 81.25, 593.75, 3600, 18750). The same check divides them: a row counts only where one division alone passes.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

_CELL = r"(?P<{0}>[\d.,]+(?: / [\d.,]+)?)"
_ROW = re.compile(
    r"^\|(?P<name>[a-z0-9. -]+)\|" + r"\|".join(_CELL.format(name) for name in ("mbps", "mb_per_s", "iops")) + r"\|"
)
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.(?:nano|micro|small|medium|large|\d*xlarge|metal(?:-\d+xl)?)")
_RUN_TOGETHER = re.compile(rf"(?P<name>{_TYPE.pattern})(?: (?P<mark>[12]))?(?P<figures>\d[\d.]*\d)")
_TWO, _ONE = re.compile(r"(\d+)\.(\d\d)(\d+)\.(\d\d)(\d+)"), re.compile(r"(\d+)\.(\d\d?)(\d+)")
_PER_MB_MAX = 66.0
"""Operations of 16 KiB in a MB, 61, and what rounding adds: no maximum of operations is higher."""
_MARK = re.compile(r"(?:^| )\d(?= |$)")
_TOLERANCE = 0.005
COLUMNS = ("type", "iops", "iops_max", "mb_per_s", "mb_per_s_max")


Row = tuple[str, float, float, float, float]


def rows(text: str) -> Iterator[Row]:
    """Yield each type with its baseline and maximum of operations a second and of MB/s; the first row of a type."""
    seen = set()
    for row in chain(_of_cells(text), _run_together(text)):
        if row[0] not in seen:
            seen.add(row[0])
            yield row


def _of_cells(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        matched = _ROW.match(line)
        if matched is None:
            continue
        name = _MARK.sub("", matched["name"]).replace(" ", "")
        mbps, throughput, iops = (_pair(matched[column]) for column in ("mbps", "mb_per_s", "iops"))
        agrees = all(abs(b / 8 - t) <= _TOLERANCE * t + 0.01 for b, t in zip(mbps, throughput, strict=True))
        if _TYPE.fullmatch(name) and agrees:
            yield name, *iops, *throughput


def _pair(cell: str) -> tuple[float, float]:
    figures = [float(part.replace(",", "")) for part in cell.split(" / ")]
    return figures[0], figures[-1]


def _run_together(text: str) -> Iterator[Row]:
    """Yield rows whose cells nothing divides, where the columns allow one division only."""
    for matched in _RUN_TOGETHER.finditer(text):
        divided = _two_divided if matched["mark"] == "1" else _one_divided
        found = set(divided(matched["figures"]))
        if len(found) == 1:
            yield matched["name"], *found.pop()


def _one_divided(figures: str) -> Iterator[tuple[float, float, float, float]]:
    """Yield the ways to divide Mbps, MB/s and operations; Python writes MB/s as the document does."""
    for end in range(1, len(figures)):
        if not figures[:end].isdecimal():
            return
        mb_per_s = int(figures[:end]) / 8
        iops = figures[end:].removeprefix(str(mb_per_s))
        if len(iops) < len(figures) - end and iops.isdecimal() and not iops.startswith("0"):
            yield int(iops), int(iops), mb_per_s, mb_per_s


def _two_divided(figures: str) -> Iterator[tuple[float, float, float, float]]:
    """Yield the ways to divide baseline and maximum of Mbps, of MB/s and of operations."""
    matched = _TWO.fullmatch(figures)
    if matched is None:
        return
    front, middle = matched[1], matched[3]
    for first in range(1, len(front) - 1):
        for second in range(first + 1, len(front)):
            mbps = int(front[:first]), int(front[first:second])
            mb_per_s = float(f"{front[second:]}.{matched[2]}"), float(f"{middle}.{matched[4]}")
            whole = all(part == str(int(part)) for part in (front[first:second], front[second:]))
            if whole and mbps[0] < mbps[1] and all(map(_is_eighth, mbps, mb_per_s)):
                for iops in _iops(matched[5], mb_per_s[1]):
                    yield *iops, *mb_per_s


def _is_eighth(mbps: int, mb_per_s: float) -> bool:
    """Whether a throughput is an eighth of a bandwidth, of which the document may have dropped a fraction."""
    return mbps / 8 - 0.01 <= mb_per_s <= (mbps + 1) / 8 + 0.01


def _iops(digits: str, mb_per_s: float) -> Iterator[tuple[int, int]]:
    for place in range(1, len(digits)):
        low, high = digits[:place], digits[place:]
        if high[0] != "0" and int(low) < int(high) <= _PER_MB_MAX * mb_per_s:
            yield int(low), int(high)


def main(arguments: list[str]) -> int:
    """Write the table to standard output."""
    table: dict[str, Row] = {}
    for path in arguments:
        for row in rows(Path(path).read_text(encoding="utf-8")):
            table.setdefault(row[0], row)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, *figures in sorted(table.values()):
        writer.writerow([name, *(f"{figure:.10g}" for figure in figures)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
