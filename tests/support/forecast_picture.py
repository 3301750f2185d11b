"""Draw results/examples/forecasts.svg: each prediction of the field reports' suites against what came.

Usage: python tests/support/forecast_picture.py (from the root), after the figures of an example have changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from html import escape
from pathlib import Path

from stored_files import REPORT, stored_text

EXAMPLES = Path("results/examples")
SUITES = (
    "fargate-efs-cold-read/full",
    "fargate-efs-cold-read",
    "gp2-credit-exhaustion/full",
    "gp2-credit-exhaustion",
    "efs-small-files/full",
    "efs-small-files",
    "rook-ceph-replicas/full",
    "rook-ceph-replicas",
    "fsx-async-writes",
)
WIDTH, LEFT, RIGHT, ROW, TOP = 900, 430, 30, 20, 56
LOW, HIGH = 0.25, 4.0


def x_of(ratio: float) -> float:
    """Return the place of a ratio to the forecast, on a logarithmic axis that ends at LOW and HIGH."""
    share = math.log(min(HIGH, max(LOW, ratio)) / LOW) / math.log(HIGH / LOW)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def rows() -> Iterator[tuple[str, dict[str, object] | None]]:
    """Yield a heading for each suite, then its predictions that were no inputs and were measured."""
    for suite in SUITES:
        report = json.loads(stored_text(EXAMPLES / suite / REPORT))
        yield suite, None
        for row in report.get("predictions", ()):
            if row["measured"] is not None and not row["input"]:
                against = f" / {row['against']}" if row["against"] else ""
                depth = f" depth {row['parameters']['iodepth']}" if "iodepth" in row["parameters"] else ""
                yield f"{row['volume']}{against}, {row['step']}{depth}, {row['metric']}", row


def drawn() -> Iterator[str]:
    """Yield the lines of the picture."""
    lines = list(rows())
    height = TOP + ROW * len(lines) + 12
    box = f'viewBox="0 0 {WIDTH} {height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="11">'
    yield f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    met, width = x_of(0.8), x_of(1.2) - x_of(0.8)
    yield f'<rect x="{met:.1f}" y="{TOP - 8}" width="{width:.1f}" height="{height - TOP}" fill="#e3f1e3"/>'
    yield (
        '<text x="8" y="18" font-size="13">Measured and reported, against the forecast</text>'
        f'<circle cx="{LEFT}" cy="14" r="4" fill="#1f5fa8"/><text x="{LEFT + 8}" y="18">measured here</text>'
        f'<path d="M{LEFT + 120} 9 l5 5 l-5 5 l-5 -5z" fill="#c2571a"/>'
        f'<text x="{LEFT + 130}" y="18">field report</text>'
        f'<rect x="{LEFT + 220}" y="8" width="12" height="12" fill="#e3f1e3"/>'
        f'<text x="{LEFT + 236}" y="18">within 20 %</text>'
    )
    for tick in (0.25, 0.5, 1.0, 2.0, 4.0):
        x = x_of(tick)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 8}" stroke="#ccc"/>'
        yield f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">× {tick:g}</text>'
    for number, (text, row) in enumerate(lines):
        y = TOP + ROW * number + 8
        if row is None:
            yield f'<text x="8" y="{y + 4}" font-weight="bold">{escape(text)}</text>'
            continue
        yield f'<text x="18" y="{y + 4}">{escape(text)}</text>'
        if row["reported"] is not None:
            directory = x_of(float(row["reported"]) / float(row["predicted"]))  # type: ignore[arg-type]
            yield f'<path d="M{directory:.1f} {y - 5} l5 5 l-5 5 l-5 -5z" fill="#c2571a"/>'
        directory = x_of(float(row["measured"]) / float(row["predicted"]))  # type: ignore[arg-type]
        yield f'<circle cx="{directory:.1f}" cy="{y}" r="4" fill="#1f5fa8"/>'
    yield "</svg>"


if __name__ == "__main__":
    (EXAMPLES / "forecasts.svg").write_text("\n".join(drawn()) + "\n", encoding="utf-8")
