"""Write suites/volumes/ec2-instances.csv from a dated copy of the vendor's tables of EBS limits.

Usage: python -m release.ec2_limits COPY.md > suites/volumes/ec2-instances.csv

The copy is the text of "Amazon EC2: Instance Types", section "Amazon EBS specifications" of each family. A row has
the type, bandwidth in Mbps, throughput in MB/s and operations a second, each as `baseline / maximum` or as one.
Line breaks of the document's columns leave spaces in names, and footnote marks stand beside them. A row counts
only where its throughput is an eighth of its bandwidth: the columns check each other.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_CELL = r"(?P<{0}>[\d.,]+(?: / [\d.,]+)?)"
_ROW = re.compile(
    r"^\|(?P<name>[a-z0-9. -]+)\|" + r"\|".join(_CELL.format(name) for name in ("mbps", "mb_per_s", "iops")) + r"\|"
)
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.(?:nano|micro|small|medium|large|\d*xlarge|metal(?:-\d+xl)?)")
_MARK = re.compile(r"(?:^| )\d(?= |$)")
_TOLERANCE = 0.005
COLUMNS = ("type", "iops", "iops_max", "mb_per_s", "mb_per_s_max")


def rows(text: str) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield each type with its baseline and maximum of operations a second and of MB/s; the first row of a type."""
    seen = set()
    for line in text.splitlines():
        matched = _ROW.match(line)
        if matched is None:
            continue
        name = _MARK.sub("", matched["name"]).replace(" ", "")
        mbps, throughput, iops = (_pair(matched[column]) for column in ("mbps", "mb_per_s", "iops"))
        agrees = all(abs(b / 8 - t) <= _TOLERANCE * t + 0.01 for b, t in zip(mbps, throughput, strict=True))
        if _TYPE.fullmatch(name) and agrees and name not in seen:
            seen.add(name)
            yield name, *iops, *throughput


def _pair(cell: str) -> tuple[float, float]:
    figures = [float(part.replace(",", "")) for part in cell.split(" / ")]
    return figures[0], figures[-1]


def main(arguments: list[str]) -> int:
    """Write the table to standard output."""
    (path,) = arguments
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, *figures in sorted(rows(Path(path).read_text(encoding="utf-8"))):
        writer.writerow([name, *(f"{figure:g}" for figure in figures)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
