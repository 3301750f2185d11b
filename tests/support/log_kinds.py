"""Six kinds of slow logs that people have, by what their statements look like; endless, and the same each time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

TEMPLATES: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "fixtures/sql/kinds.json").read_text())
KINDS = tuple(TEMPLATES)
_HEAD = (
    "# Time: 2026-11-21T12:{minute:02}:{second:02}.{micro:06}Z\n"
    "# User@Host: app[app] @ localhost []  Id: {connection:5}\n"
    "# Query_time: 0.{micro:06}  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 100\n"
    "SET timestamp=1795263240;\n"
)


def statements(kind: str, seed: int = 48) -> Iterator[str]:
    """Statements of a kind without an end."""
    chosen = random.Random(seed)
    while True:
        template = chosen.choice(TEMPLATES[kind])
        values = {
            "few": str(chosen.randint(1, 4)),
            "number": str(chosen.randint(1, 50_000)),
            "other": str(chosen.randint(1, 50_000)),
            "digits": str(chosen.randint(10**10, 10**11)),
        }
        if "{list}" in template:
            values["list"] = ",".join(str(chosen.randint(1, 10**7)) for _ in range(chosen.randint(1, 400)))
        if "{rows}" in template:
            values["rows"] = ",".join(_row(chosen) for _ in range(chosen.randint(1, 200)))
        if "{json}" in template:
            values["json"] = _json(chosen)
        yield template.format(**values)


def _row(chosen: random.Random) -> str:
    return f"({chosen.randint(1, 10**6)}, 'some text of a row', {chosen.random()}, '2026-01-02 03:04:05')"


def _json(chosen: random.Random) -> str:
    value = [chosen.random(), 'it\'s "quoted"', None]
    text = json.dumps({f"key{number}": value for number in range(chosen.randint(1, 12))})
    return text.replace("\\", "\\\\").replace("'", "\\'")


def write_log(kind: str, path: Path, megabytes: float) -> int:
    """Write a log of a kind, as MySQL does; return its bytes."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        for number, sql in enumerate(statements(kind)):
            second = number // 10 % 3600
            head = _HEAD.format(
                minute=second // 60, second=second % 60, micro=number % 1_000_000, connection=number % 64
            )
            use = "" if number else "use shop;\n"
            size += file.write(f"{head.replace('SET timestamp', use + 'SET timestamp')}{sql};\n")
            if size >= megabytes * 1e6:
                break
    return path.stat().st_size
