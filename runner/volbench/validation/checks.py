"""The checks of a validation: each turns the answers of both servers into one row: go, no-go or undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from volbench.records.goals.gate import Decision
from volbench.records.validation.result import CheckName, CheckRow
from volbench.validation.capture.mask import redact_error
from volbench.validation.catalog.differences import inventory_differences, unreadable_kinds
from volbench.validation.catalog.objects import Inventory
from volbench.validation.data.checksums import TableComparison, compare_tables, tables_of
from volbench.validation.queries.comparison import QueryComparison
from volbench.validation.source.server import SqlReader

Progress = Callable[[str, float], None]
_DEFINED = ("trigger", "routine", "event", "view")


def objects_check(source: Inventory, candidate: Inventory, unreadable: Sequence[str] = ()) -> CheckRow:
    """Compare tables and their parts, triggers, routines, events, views, grants and time zones.

    `unreadable` lists what the accounts may not see; then equal objects prove nothing.
    """
    all_differences = inventory_differences(source, candidate)
    differences = [str(difference) for difference in all_differences if difference.certain]
    doubts = [
        f"cannot be compared, since the text cannot be parsed: {difference}"
        for difference in all_differences
        if not difference.certain
    ]
    doubts += [*unreadable, *unreadable_kinds(source, candidate)]
    objects = sum(len(of_kind) for of_kind in source.values())
    row = _row("objects", differences, f"{objects} objects and parts of objects", "differ")
    if not doubts:
        return row
    decision: Decision = "no-go" if differences else "undecided"
    text = row.text if differences else f"{row.text}, but {len(doubts)} cannot be compared or seen"
    return row.model_copy(update={"decision": decision, "text": text, "details": (*row.details, *doubts)})


def definers_check(source: Inventory, accounts: set[str]) -> CheckRow:
    """Return whether every definer exists on the candidate. `accounts` are user@host."""
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
    return _row("definers", missing, f"{len(objects_by_definer)} definers", "are missing")


def checksums_check(
    source: SqlReader,
    candidate: SqlReader,
    source_inventory: Inventory,
    candidate_inventory: Inventory,
    progress: Progress,
    *,
    values: bool = True,
) -> CheckRow:
    """Compare every row of every table that both sides have; the check of objects reports the other tables."""
    compared = list(
        compare_tables(source, candidate, tables_of(source_inventory, candidate_inventory), progress, values=values)
    )
    details = [text for comparison in compared for text in _table_texts(comparison)]
    rows = sum(comparison.source_rows for comparison in compared)
    row = _row("checksums", details, f"{rows} rows of {len(compared)} tables", "differ")
    if any(comparison.equal is False for comparison in compared):
        return row
    if any(comparison.equal is None for comparison in compared):
        return row.model_copy(update={"decision": "undecided", "text": "some columns cannot be compared"})
    return row


def query_checks(
    compared: Sequence[QueryComparison], *, values: bool = True, notes: Sequence[str] = ()
) -> Iterator[CheckRow]:
    """Yield the checks of rows, times and plans of queries; a changed plan is reported and decides nothing.

    `notes` list the queries that were not compared. Without `values` no row has a value or a literal.
    """
    wrong = [
        comparison
        for comparison in compared
        if comparison.result == "differs" or comparison.result.startswith("error on the")
    ]
    queries = _row(
        "queries",
        [_difference_text(comparison, values=values) for comparison in wrong],
        f"{len(compared)} classes of queries",
        "differ",
    )
    yield queries.model_copy(update={"details": (*queries.details, *notes)})
    slower = [_slower_text(comparison) for comparison in compared if comparison.slower]
    yield _row(
        "times", slower, f"{sum(comparison.shift is not None for comparison in compared)} classes", "are slower"
    )
    changed = [_plan_text(comparison) for comparison in compared if comparison.plan_changed]
    plans = _row(
        "plans", changed, f"{sum(comparison.plans is not None for comparison in compared)} plans", "changed"
    )
    yield plans.model_copy(update={"decision": "go"})


def _row(check: CheckName, details: Sequence[str], compared: str, verb: str) -> CheckRow:
    decision: Decision = "no-go" if details else "go"
    text = f"{len(details)} {verb}, of {compared}" if details else f"all equal: {compared}"
    return CheckRow(check=check, decision=decision, text=text, details=tuple(details))


def _table_texts(comparison: TableComparison) -> Iterator[str]:
    if comparison.source_rows != comparison.candidate_rows:
        yield f"{comparison.table}: {comparison.source_rows} rows became {comparison.candidate_rows}"
    for text in comparison.texts:
        yield f"{comparison.table}: {text}"


def _difference_text(comparison: QueryComparison, *, values: bool) -> str:
    text = comparison.text if values else redact_error(comparison.text)
    query = comparison.query
    return f"{comparison.result}: {query.fingerprint[:160]} ({query.count} times in the log): {text}"


def _slower_text(comparison: QueryComparison) -> str:
    assert comparison.shift is not None  # noqa: S101 - slower classes were timed
    low, high = (f"{end:.2g}" if end else "?" for end in (comparison.shift.low, comparison.shift.high))
    return (
        f"{comparison.shift.ratio:.2g} times [{low}, {high}] as slow, "
        f"{comparison.source_ms:.3g} to {comparison.candidate_ms:.3g} ms: {comparison.query.fingerprint[:160]}"
        + (f"; {_plan_change(comparison)}" if comparison.plan_changed else "")
    )


def _plan_text(comparison: QueryComparison) -> str:
    return f"{comparison.query.fingerprint[:160]}: {_plan_change(comparison)}"


def _plan_change(comparison: QueryComparison) -> str:
    assert comparison.plans is not None  # noqa: S101 - only changed plans are reported
    return f"plan {comparison.plans[0] or 'none'} became {comparison.plans[1] or 'none'}"
