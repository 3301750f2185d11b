"""Rows: every reader of the table of damaged files, on values that changed within their types."""

from __future__ import annotations

from dataclasses import replace

import mutations
from fuzzed import READERS
from fuzzed.reader import Mutate, Reader
from fuzzed.runs import mutated_table

from structured import values

YAML_READERS = frozenset({"suite", "suite-of-own-data", "policy", "plan", "profile", "prices"})
_OF_DAMAGE: dict[Mutate, Mutate] = {
    mutations.mutated_json: values.typed_json,
    mutations.mutated_lines: values.typed_lines,
    mutated_table: values.typed_table,
}
BINARY = frozenset({"pod-archive", "compressed-sql", "ebs-nvme-page"})
"""Formats whose values have no text: what damages bytes changes them."""
SHARE = 3.0
"""Of executions, against the rows of whole commands, which take longer and judge outputs too."""
TABLES = frozenset({"query-series", "report-histograms"})


def _typed(reader: Reader) -> Reader:
    if reader.name in BINARY:
        mutate: Mutate = reader.mutate
    elif reader.name in YAML_READERS:
        mutate = values.typed_yaml
    elif reader.name in TABLES:
        mutate = values.typed_table
    else:
        mutate = _OF_DAMAGE.get(reader.mutate, values.typed_text)
    return replace(reader, name=f"typed: {reader.name}", mutate=mutate, share=reader.share * SHARE)


ROWS: tuple[Reader, ...] = tuple(_typed(reader) for reader in READERS)
