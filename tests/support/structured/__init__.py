"""Structured fuzzing: values change within their types, and whole commands and their outputs are judged."""

from __future__ import annotations

from fuzzed.reader import Reader

from structured import commands, typed

ROWS: tuple[Reader, ...] = (*typed.ROWS, *commands.ROWS)
BY_NAME = {row.name: row for row in ROWS}
