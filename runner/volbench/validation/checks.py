"""The checks of a validation, each from what both servers say to one row: go, no-go or undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from volbench.records.gate import Decision
from volbench.records.validation import CheckName, CheckRow
from volbench.validation.checksums import TableComparison, compare_tables, tables_of
from volbench.validation.differences import inventory_differences, unseen_kinds
from volbench.validation.mask import without_values
from volbench.validation.objects import Inventory
from volbench.validation.queries import QueryComparison
from volbench.validation.source import Reads

Progress = Callable[[str, float], None]
_DEFINED = ("trigger", "routine", "event", "view")


def objects_check(source: Inventory, candidate: Inventory, unseen: Sequence[str] = ()) -> CheckRow:
    """Tables, columns, indexes, keys, checks, partitions, triggers, routines, events, views, grants and time zones.

    `unseen` says what the accounts may not see: then equal is no proof.
    """
    found = inventory_differences(source, candidate)
    differences = [str(one) for one in found if one.certain]
    doubts = [f"cannot be told, since it cannot be parsed: {one}" for one in found if not one.certain]
    doubts += [*unseen, *unseen_kinds(source, candidate)]
    objects = sum(len(named) for named in source.values())
    row = _row("objects", differences, f"{objects} objects and parts of objects", "differ")
    if not doubts:
        return row
    decision: Decision = "no-go" if differences else "undecided"
    text = row.text if differences else f"{row.text}, but {len(doubts)} cannot be told or seen"
    return row.model_copy(update={"decision": decision, "text": text, "details": (*row.details, *doubts)})


def definers_check(source: Inventory, accounts: set[str]) -> CheckRow:
    """Whether every account that something runs as exists on the candidate. `accounts` are user@host."""
    used: dict[str, list[str]] = {}
    for kind in _DEFINED:
        for name, attributes in source.get(kind, {}).items():
            used.setdefault(attributes["definer"], []).append(f"{kind} {name}")
    missing = [
        f"{definer} does not exist on the candidate, but defines {', '.join(names[:3])}"
        + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for definer, names in used.items()
        if definer not in accounts
    ]
    return _row("definers", missing, f"{len(used)} definers", "are missing")


def checksums_check(
    source: Reads, candidate: Reads, left: Inventory, right: Inventory, progress: Progress, *, values: bool = True
) -> CheckRow:
    """Every row of every table that both sides have; tables of one side are told by the objects."""
    compared = list(compare_tables(source, candidate, tables_of(left, right), progress, values=values))
    details = [text for one in compared for text in _table_texts(one)]
    rows = sum(one.source_rows for one in compared)
    row = _row("checksums", details, f"{rows} rows of {len(compared)} tables", "differ")
    if any(one.equal is False for one in compared):
        return row
    if any(one.equal is None for one in compared):
        return row.model_copy(update={"decision": "undecided", "text": "some columns cannot be compared"})
    return row


def query_checks(
    compared: Sequence[QueryComparison], *, values: bool = True, notes: Sequence[str] = ()
) -> Iterator[CheckRow]:
    """Rows, times and plans of queries; a plan that changed is told, and decides nothing by itself.

    `notes` say which queries were not compared. Without `values` no value of a row and no literal is in them.
    """
    wrong = [one for one in compared if one.result == "differs" or one.result.startswith("error on the")]
    queries = _row(
        "queries",
        [_wrong_text(one, values=values) for one in wrong],
        f"{len(compared)} classes of queries",
        "differ",
    )
    yield queries.model_copy(update={"details": (*queries.details, *notes)})
    slower = [_slower_text(one) for one in compared if one.slower]
    yield _row("times", slower, f"{sum(one.shift is not None for one in compared)} classes", "are slower")
    changed = [_plan_text(one) for one in compared if one.plan_changed]
    plans = _row("plans", changed, f"{sum(one.plans is not None for one in compared)} plans", "changed")
    yield plans.model_copy(update={"decision": "go"})


def _row(check: CheckName, details: Sequence[str], compared: str, verb: str) -> CheckRow:
    decision: Decision = "no-go" if details else "go"
    text = f"{len(details)} {verb}, of {compared}" if details else f"all equal: {compared}"
    return CheckRow(check=check, decision=decision, text=text, details=tuple(details))


def _table_texts(one: TableComparison) -> Iterator[str]:
    if one.source_rows != one.candidate_rows:
        yield f"{one.table}: {one.source_rows} rows became {one.candidate_rows}"
    for text in one.texts:
        yield f"{one.table}: {text}"


def _wrong_text(one: QueryComparison, *, values: bool) -> str:
    text = one.text if values else without_values(one.text)
    return f"{one.result}: {one.query.fingerprint[:160]} ({one.query.count} times in the log): {text}"


def _slower_text(one: QueryComparison) -> str:
    assert one.shift is not None  # noqa: S101 - slower ones were timed
    low, high = (f"{end:.2g}" if end else "?" for end in (one.shift.low, one.shift.high))
    return (
        f"{one.shift.ratio:.2g} times [{low}, {high}] as slow, {one.source_ms:.3g} to {one.candidate_ms:.3g} ms: "
        f"{one.query.fingerprint[:160]}" + (f"; {_plan_words(one)}" if one.plan_changed else "")
    )


def _plan_text(one: QueryComparison) -> str:
    return f"{one.query.fingerprint[:160]}: {_plan_words(one)}"


def _plan_words(one: QueryComparison) -> str:
    assert one.plans is not None  # noqa: S101 - only changed plans are told
    return f"plan {one.plans[0] or 'none'} became {one.plans[1] or 'none'}"
