"""Checksums of tables on two servers, chunk by chunk, and the rows that differ."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from volbench.core.base.text import counted
from volbench.machine.engine.answers import reads_answers, whole_number
from volbench.validation.catalog.objects import Attributes, Inventory
from volbench.validation.data.chunk_sums import ChunkReaders, Pair, Sums, on_both, sums_of
from volbench.validation.data.chunks import (
    CHUNK_ROWS,
    STATEMENT_S_MAX,
    UNDIVIDED_BYTES_MAX,
    Pace,
    chunks_of,
    divisible_key,
    size_query,
)
from volbench.validation.data.row_sql import printed_float, row_text
from volbench.validation.data.table import Column, ComparedTable, quoted_name
from volbench.validation.data.throttle import Throttle
from volbench.validation.source.server import SqlReader

ROWS_NAMED_MAX = 5
CHUNKS_COUNTED_MAX = 10
"""Chunks whose differing rows are counted one by one: with more of them, a table differs as a whole."""
_TABLES_BEGUN_MAX = 64
"""Whose chunks are read at one time, so that sessions have work where tables are small."""


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """A table on two servers.

    Args:
        equal: None where some columns are not comparable.
        different_rows: that are missing, added or changed; None where no key tells rows apart.
        all_counted: whether there are no more of them.
    """

    table: str
    equal: bool | None
    source_rows: int
    candidate_rows: int
    chunks: int
    texts: tuple[str, ...] = ()
    different_rows: int | None = 0
    all_counted: bool = True


@dataclass(frozen=True, kw_only=True)
class _Differences:
    texts: tuple[str, ...] = ()
    rows: int | None = 0
    all_counted: bool = True


def tables_of(source: Inventory, candidate: Inventory) -> list[ComparedTable]:
    """Return the tables and columns that both sides have, without JSON columns that are text on the other side."""
    labels = source["table"].keys() & candidate["table"].keys()
    source_columns, candidate_columns = (_columns_by_table(side, labels) for side in (source, candidate))
    keys = _primary_keys(source)
    return [_table(label, source_columns[label], candidate_columns[label], keys[label]) for label in sorted(labels)]


def compare_tables(
    source: SqlReader,
    candidate: SqlReader,
    tables: Sequence[ComparedTable],
    progress: Callable[[str, float], None],
    *,
    pairs: Sequence[Pair] = (),
    values: bool = True,
) -> Iterator[TableComparison]:
    """Yield each table, read in full on both sides; with the keys of differing rows, or only their number.

    Args:
        source, candidate: find the chunks and the rows that differ.
        tables: on both.
        progress: is told which table begins.
        pairs: sessions that read the chunks, each its own; none: `source` and `candidate` read them.
        values: whether differing rows may be named.
    """
    throttle, begun = Throttle(source, candidate), deque[_Begun]()
    with ChunkReaders((source, candidate), pairs) as readers:
        for index, table in enumerate(tables):
            progress(table.label, index / len(tables))
            begun.append(_begin(source, candidate, table, throttle, readers))
            while begun and (len(begun) > _TABLES_BEGUN_MAX or begun[0].has_ended):
                yield _compared(source, candidate, begun.popleft(), values=values)
        while begun:
            yield _compared(source, candidate, begun.popleft(), values=values)


@dataclass
class _Begun:
    """A table whose chunks are being read: sums of those that were, and those that are, in order."""

    table: ComparedTable
    too_large: str | None = None
    rows: tuple[int, int] = (0, 0)
    chunks: int = 0
    unread: int = 0
    differing: list[str] = field(default_factory=list)
    reading: deque[Future[list[Sums] | None]] = field(default_factory=deque)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is read any more."""
        return all(chunk.done() for chunk in self.reading)

    def take(self, *, wait: bool) -> None:
        """Add what was read, in order; all of it with `wait`. Raises StepFailed where a chunk has failed."""
        while self.reading and (wait or self.reading[0].done()):
            sums = self.reading.popleft().result()
            self.unread += sums is None
            for of_range in sums or ():
                self.chunks += 1
                self.rows = self.rows[0] + of_range.source[0], self.rows[1] + of_range.candidate[0]
                if of_range.source != of_range.candidate:
                    self.differing.append(of_range.where)


@reads_answers("rows")
def _begin(
    source: SqlReader, candidate: SqlReader, table: ComparedTable, throttle: Throttle, readers: ChunkReaders
) -> _Begun:
    begun, pace = _Begun(table, too_large=_too_large_without_key(source, candidate, table)), Pace()
    if begun.too_large is None:
        for chunk in chunks_of((source, candidate), table, pace):
            read = partial(sums_of, table=table, chunk=chunk, pace=pace)
            begun.reading.append(readers.submit(read, throttle=throttle.wait))
            begun.take(wait=False)
    return begun


@reads_answers("rows")
def _compared(source: SqlReader, candidate: SqlReader, begun: _Begun, *, values: bool) -> TableComparison:
    begun.take(wait=True)
    table, differing = begun.table, begun.differing
    if begun.too_large is not None:
        return TableComparison(
            table=table.label, equal=None, source_rows=0, candidate_rows=0, chunks=0, texts=(begun.too_large,)
        )
    differences = _differences(source, candidate, table, differing, values=values) if differing else _Differences()
    texts = list(differences.texts)
    if table.incomparable:
        texts.append(f"not compared: {', '.join(table.incomparable)} (JSON on one side, text on the other)")
    if begun.unread:
        unread = counted(begun.unread, "chunk")
        texts.append(f"not compared: {unread}, which a server did not read within {STATEMENT_S_MAX:g} s")
    equal = False if differing else (None if table.incomparable or begun.unread else True)
    return TableComparison(
        table=table.label,
        equal=equal,
        source_rows=begun.rows[0],
        candidate_rows=begun.rows[1],
        chunks=begun.chunks,
        texts=tuple(texts),
        different_rows=differences.rows,
        all_counted=differences.all_counted,
    )


@reads_answers("sizes")
def _too_large_without_key(source: SqlReader, candidate: SqlReader, table: ComparedTable) -> str | None:
    """Return why a table that no key divides is not read, or None where one statement reads it soon enough."""
    if divisible_key(table):
        return None
    sizes = [whole_number(row[0][0]) for row in on_both(source, candidate, size_query(table)) if row]
    if max(sizes, default=0) <= UNDIVIDED_BYTES_MAX:
        return None
    return (
        f"not compared: no primary key divides its {max(sizes) / 2**20:,.0f} MiB, and one statement reads at most "
        f"{UNDIVIDED_BYTES_MAX >> 20} MiB within {STATEMENT_S_MAX:g} s"
    )


def _differences(
    source: SqlReader, candidate: SqlReader, table: ComparedTable, differing: Sequence[str], *, values: bool
) -> _Differences:
    """Return the first differing rows by their key, and the number of them; without a key only that rows differ."""
    if not table.key:
        text = "rows differ; the table has no primary key to name them"
        return _Differences(texts=(text,), rows=None, all_counted=False)
    texts: list[str] = []
    all_counted = len(differing) <= CHUNKS_COUNTED_MAX
    for where in differing[:CHUNKS_COUNTED_MAX]:
        of_chunk, whole_chunk = _different_rows(source, candidate, table, where)
        texts += of_chunk
        all_counted = all_counted and whole_chunk
    count = len(texts)
    if not values:
        texts = [f"{counted(count, 'row that differs is', 'rows that differ are')} not named: keys are not stored"]
    elif count > ROWS_NAMED_MAX:
        texts[ROWS_NAMED_MAX:] = [f"and {counted(count - ROWS_NAMED_MAX, 'more row', 'more rows')}"]
    if not all_counted:
        texts.append(
            f"only {CHUNKS_COUNTED_MAX} of {counted(len(differing), 'chunk')} that differ were read row by row"
        )
    return _Differences(texts=tuple(texts), rows=count, all_counted=all_counted)


def _different_rows(
    source: SqlReader, candidate: SqlReader, table: ComparedTable, where: str
) -> tuple[list[str], bool]:
    """Return a text for each differing row of a chunk, and whether all rows of the chunk were read."""
    keys = ", ".join(quoted_name(name) for name in table.key)
    floats = {column.name for column in table.columns if column.base_type == "float"}
    printed_keys = ", ".join(printed_float(name) if name in floats else quoted_name(name) for name in table.key)
    each_row = (
        f"SELECT {printed_keys}, SHA2({row_text(table)}, 256) FROM {table.quoted} WHERE {where} "
        f"ORDER BY {keys} LIMIT {4 * CHUNK_ROWS}"
    )
    source_rows, candidate_rows = (
        {tuple(map(str, row[:-1])): str(row[-1]) for row in rows} for rows in on_both(source, candidate, each_row)
    )
    texts = [f"row {_key(k)} is missing on the candidate" for k in source_rows if k not in candidate_rows]
    texts += [f"row {_key(k)} is only on the candidate" for k in candidate_rows if k not in source_rows]
    texts += [
        f"row {_key(k)} has other values"
        for k in source_rows
        if k in candidate_rows and source_rows[k] != candidate_rows[k]
    ]
    return texts, max(len(source_rows), len(candidate_rows)) < 4 * CHUNK_ROWS


def _columns_by_table(side: Inventory, labels: Collection[str]) -> defaultdict[str, dict[str, Attributes]]:
    """Return the columns of each table by their names."""
    columns: defaultdict[str, dict[str, Attributes]] = defaultdict(dict)
    for name, attributes in side["column"].items():
        label = _table_of(name, labels)
        if label is not None:
            columns[label][name[len(label) + 1 :]] = attributes
    return columns


def _table_of(name: str, labels: Collection[str]) -> str | None:
    """Return the table in a column's name; the longest one, since names of tables may have dots."""
    label = name
    while "." in label:
        label = label.rpartition(".")[0]
        if label in labels:
            return label
    return None


def _primary_keys(side: Inventory) -> defaultdict[str, list[str]]:
    """Return the columns of each table's primary key in their order."""
    numbered: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for name, attributes in side["index"].items():
        label, separator, position = name.rpartition(".PRIMARY.")
        if separator:
            numbered[label].append((int(position), attributes["column"]))
    return defaultdict(
        list, {label: [column for _, column in sorted(of_key)] for label, of_key in numbered.items()}
    )


def _table(
    label: str, source: Mapping[str, Attributes], candidate: Mapping[str, Attributes], key: Sequence[str]
) -> ComparedTable:
    schema, _, name = label.partition(".")
    shared = [(column, source[column], candidate[column]) for column in source if column in candidate]
    json_mismatch = tuple(
        column
        for column, source_side, candidate_side in shared
        if (source_side["type"] == "json") != (candidate_side["type"] == "json")
    )
    columns = tuple(
        _column(column, source_side, candidate_side)
        for column, source_side, candidate_side in shared
        if column not in json_mismatch
    )
    return ComparedTable(schema=schema, name=name, columns=columns, key=tuple(key), incomparable=json_mismatch)


def _column(name: str, source_side: Attributes, candidate_side: Attributes) -> Column:
    return Column(
        name=name,
        type=source_side["type"],
        nullable=not source_side["nullable"] == candidate_side["nullable"] == "NO",
        # In utf8mb4 there is nothing to convert.
        stored_alike=source_side["charset"] == candidate_side["charset"] not in {"", "utf8mb4"},
        ordered_alike=all(source_side.get(name) == candidate_side.get(name) for name in ("charset", "collation")),
    )


def _key(key: tuple[str, ...]) -> str:
    return key[0] if len(key) == 1 else f"({', '.join(key)})"
