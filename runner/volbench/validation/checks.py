"""The checks of objects, rows and queries: each turns the answers of both servers into one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from volbench.core.base.text import counted, number
from volbench.core.records.validation.result import CheckRow
from volbench.validation.capture.mask import redact_error
from volbench.validation.catalog.differences import inventory_differences, unreadable_kinds
from volbench.validation.catalog.objects import Inventory
from volbench.validation.data.checksums import TableComparison, compare_tables, tables_of
from volbench.validation.data.chunk_sums import Pair
from volbench.validation.queries.comparison import QueryComparison
from volbench.validation.source.server import SqlReader
from volbench.validation.verdict import decide_check, undecided

Progress = Callable[[str, float], None]
_DEFINED = ("trigger", "routine", "event", "view")
_NOT_IN_SCHEMAS = ("schema", "time zone", "account")
"""Kinds that any two servers have, whatever the schemas hold."""


def objects_check(source: Inventory, candidate: Inventory, unreadable: Sequence[str] = ()) -> CheckRow:
    """Compare tables and their parts, triggers, routines, events, views, grants and time zones.

    `unreadable` lists what the accounts may not see; then equal objects prove nothing.
    """
    all_differences = inventory_differences(source, candidate)
    faults = [str(difference) for difference in all_differences if difference.certain]
    doubts = [
        f"cannot be compared, since the text cannot be parsed: {difference}"
        for difference in all_differences
        if not difference.certain
    ]
    doubts += [*unreadable, *unreadable_kinds(source, candidate)]
    objects = counted(
        sum(len(of_kind) for of_kind in source.values()), "object or part of one", "objects and parts"
    )
    if doubts:
        objects += f", and {len(doubts)} cannot be compared or seen"
    return decide_check(
        "objects",
        compared=_objects_in_schemas(source) + _objects_in_schemas(candidate),
        text=f"{_differ(len(faults))}, of {objects}" if faults else f"no difference: {objects}",
        faults=faults,
        doubts=doubts,
        nothing="neither server has an object in the schemas",
    )


def _differ(count: int) -> str:
    return f"{count:,} {'differs' if count == 1 else 'differ'}"


def definers_check(source: Inventory, accounts: Collection[str] | None, unreadable: Sequence[str] = ()) -> CheckRow:
    """Return whether every definer exists on the candidate.

    Args:
        source: its inventory.
        accounts: of the candidate, as user@host; None where they are not visible.
        unreadable: what the accounts may not see, since a definer may be among that.
    """
    if accounts is None:
        return undecided("definers", "the candidate's accounts are not visible: SELECT on mysql.* is missing")
    objects_by_definer: dict[str, list[str]] = {}
    for kind in _DEFINED:
        for name, attributes in source.get(kind, {}).items():
            objects_by_definer.setdefault(attributes["definer"], []).append(f"{kind} {name}")
    missing = [
        f"{definer} does not exist on the candidate, but defines {', '.join(names[:3])}"
        + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for definer, names in objects_by_definer.items()
        if definer not in accounts
    ]
    definers = counted(len(objects_by_definer), "definer")
    if not objects_by_definer:
        definers = "no trigger, routine, event or view needs one"
    return decide_check(
        "definers",
        compared=_objects_in_schemas(source),
        text=f"{len(missing)} missing, of {definers}" if missing else f"none is missing: {definers}",
        faults=missing,
        doubts=unreadable,
        nothing="the source has no object in the schemas",
    )


def checksums_check(
    source: SqlReader,
    candidate: SqlReader,
    source_inventory: Inventory,
    candidate_inventory: Inventory,
    progress: Progress,
    *,
    pairs: Sequence[Pair] = (),
    values: bool = True,
) -> CheckRow:
    """Compare every row of every table that both sides have, on `pairs` of sessions if there are any."""
    tables = tables_of(source_inventory, candidate_inventory)
    compared = list(compare_tables(source, candidate, tables, progress, pairs=pairs, values=values))
    faults: list[str] = []
    doubts: list[str] = []
    for comparison in compared:
        (faults if comparison.equal is False else doubts).extend(_table_texts(comparison))
    doubts += _not_on_both(source_inventory, candidate_inventory)
    tables_read = counted(len(compared), "table")
    rows = sum(comparison.source_rows for comparison in compared)
    summary = f"{counted(rows, 'row')} of {tables_read}"
    differing = sum(comparison.equal is False for comparison in compared)
    return decide_check(
        "checksums",
        compared=rows + sum(comparison.candidate_rows for comparison in compared),
        text=f"{_different_rows(compared)} in {counted(differing, 'table')}; {summary} were compared"
        if differing
        else f"no difference: {summary}",
        faults=faults,
        doubts=doubts,
        nothing=f"no row was compared: {tables_read} on both sides, none with a row",
    )


def _different_rows(compared: Sequence[TableComparison]) -> str:
    """Return how many rows differ: at least so many where some were not counted."""
    row_counts = [comparison.different_rows for comparison in compared if comparison.different_rows is not None]
    different = counted(sum(row_counts), "row differs", "rows differ")
    if all(comparison.all_counted for comparison in compared):
        return different
    return f"at least {different}" if sum(row_counts) else "rows differ"


def query_checks(
    compared: Sequence[QueryComparison], *, values: bool = True, notes: Sequence[str] = ()
) -> Iterator[CheckRow]:
    """Yield the checks of rows, times and plans of queries; a changed plan is reported and decides nothing.

    `notes` list the queries that were not compared. Without `values` no row has a value or a literal.
    """
    yield _rows_check(compared, values=values, notes=notes)
    timed = [comparison for comparison in compared if comparison.shift is not None]
    slower = [_slower_text(comparison) for comparison in compared if comparison.slower]
    unproven = [f"may be slower: {_slower_text(comparison)}" for comparison in compared if comparison.unproven]
    untimed = len(compared) - len(timed)
    classes = f"{len(timed)} of {_classes(len(compared))} were timed"
    yield decide_check(
        "times",
        compared=len(timed),
        text=f"{counted(len(slower), 'class is', 'classes are')} slower, {classes}"
        if slower
        else f"none is slower{' beyond doubt' if unproven else ''}: {classes}",
        faults=slower,
        doubts=[*unproven, *([f"{_classes(untimed)} could not be timed: see queries"] if untimed else [])],
        nothing=_nothing_timed(compared),
    )
    planned = [comparison for comparison in compared if comparison.plans is not None]
    changed = [_plan_text(comparison) for comparison in planned if comparison.plan_changed]
    yield decide_check(
        "plans",
        compared=len(planned),
        text=f"{counted(len(changed), 'plan')} changed, {len(planned)} of {_classes(len(compared))} were explained",
        notes=changed,
        nothing="no plan was compared" if compared else "no query was compared",
    )


def _rows_check(compared: Sequence[QueryComparison], *, values: bool, notes: Sequence[str]) -> CheckRow:
    """Return the check of the queries' rows: what fails on both servers, or was cut off, proves nothing."""
    wrong = [comparison for comparison in compared if comparison.is_wrong]
    failed = [comparison for comparison in compared if comparison.proves_nothing]
    equal = [comparison for comparison in compared if comparison.result == "equal"]
    unstable = [comparison for comparison in compared if comparison.result == "not deterministic"]
    summary = f"{len(equal)} of {_classes(len(compared))} gave the same rows"
    if unstable:
        summary += f", {len(unstable)} give other rows each time and were not compared"
    nothing = "no query was compared"
    if equal:
        nothing = f"no row was compared: {_classes(len(equal))} gave none on either server"
    elif unstable:
        nothing = f"no query was compared: {_classes(len(unstable))} give other rows each time"
    return decide_check(
        "queries",
        compared=sum(comparison.rows for comparison in equal),
        text=f"{counted(len(wrong), 'class differs', 'classes differ')}; {summary}" if wrong else summary,
        faults=[_difference_text(comparison, values=values) for comparison in wrong],
        doubts=[
            *_failures_by_error(failed),
            *(_difference_text(comparison, values=values) for comparison in failed),
        ],
        notes=[*(_difference_text(comparison, values=values) for comparison in unstable), *notes],
        nothing=f"{nothing}; {_failures_by_error(failed)[0]}" if failed else nothing,
    )


def _failures_by_error(failed: Sequence[QueryComparison]) -> list[str]:
    """Return how many classes prove nothing, by result and error code; an empty list without any."""
    by_error = Counter((comparison.result, comparison.error_code) for comparison in failed)
    texts = [
        f"{_classes(count)}: {result}" + (f" {code}" if code else "")
        for (result, code), count in by_error.most_common()
    ]
    return [f"what failed proves nothing: {', '.join(texts)}"] if texts else []


def _nothing_timed(compared: Sequence[QueryComparison]) -> str:
    return f"none of {_classes(len(compared))} could be timed: see queries" if compared else "no query was timed"


def _classes(count: int) -> str:
    return counted(count, "class", "classes")


def _objects_in_schemas(inventory: Inventory) -> int:
    """Return the number of objects besides the schemas themselves, accounts and grants."""
    return sum(
        len(objects)
        for kind, objects in inventory.items()
        if kind not in _NOT_IN_SCHEMAS and not kind.startswith(("grant ", "role "))
    )


def _not_on_both(source: Inventory, candidate: Inventory) -> Iterator[str]:
    """Yield the tables and columns of one side only: their rows were not compared."""
    tables = source.get("table", {}).keys() ^ candidate.get("table", {}).keys()
    if tables:
        yield f"not compared, since only one side has {counted(len(tables), 'table')}: {_some(tables)}"
    columns = {
        name
        for name in source.get("column", {}).keys() ^ candidate.get("column", {}).keys()
        if not any(name.startswith(f"{table}.") for table in tables)
    }
    if columns:
        yield f"not compared, since only one side has {counted(len(columns), 'column')}: {_some(columns)}"


def _some(names: Collection[str], limit: int = 5) -> str:
    more = len(names) - limit
    return ", ".join(sorted(names)[:limit]) + (f" and {more} more" if more > 0 else "")


def _table_texts(comparison: TableComparison) -> Iterator[str]:
    if comparison.source_rows != comparison.candidate_rows:
        yield f"{comparison.table}: {counted(comparison.source_rows, 'row')} became {comparison.candidate_rows:,}"
    for text in comparison.texts:
        yield f"{comparison.table}: {text}"


def _difference_text(comparison: QueryComparison, *, values: bool) -> str:
    text = comparison.text if values else redact_error(comparison.text)
    query = comparison.query
    times = counted(query.count, "time")
    return f"{comparison.result}: {query.fingerprint[:160]} ({times} in the log): {text}"


def _slower_text(comparison: QueryComparison) -> str:
    assert comparison.shift is not None
    low, high = (number(end) if end else "?" for end in (comparison.shift.low, comparison.shift.high))
    return (
        f"{number(comparison.shift.ratio)} times [{low}, {high}] as slow, "
        f"{number(comparison.source_ms)} to {number(comparison.candidate_ms)} ms: "
        f"{comparison.query.fingerprint[:160]}"
        + (f"; {_plan_change(comparison)}" if comparison.plan_changed else "")
    )


def _plan_text(comparison: QueryComparison) -> str:
    return f"{comparison.query.fingerprint[:160]}: {_plan_change(comparison)}"


def _plan_change(comparison: QueryComparison) -> str:
    assert comparison.plans is not None
    return f"plan {comparison.plans[0] or 'none'} became {comparison.plans[1] or 'none'}"
