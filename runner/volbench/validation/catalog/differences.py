"""Differences between a candidate and its source, each naming its object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from volbench.validation.catalog.grants import accounts_with_access
from volbench.validation.catalog.objects import Attributes, Inventory
from volbench.validation.catalog.sql_text import UNPARSED


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One object that is missing, new or changed. `source` and `candidate` are the texts of each side."""

    kind: str
    name: str
    change: str
    source: str = ""
    candidate: str = ""

    def __str__(self) -> str:
        before, after = _excerpts_at_difference(self.source, self.candidate)
        sides = f" ({before!r} became {after!r})" if before or after else ""
        return f"{self.kind} {self.name}: {self.change}{sides}"

    @property
    def certain(self) -> bool:
        """Return False where only unparsed texts differ, since servers print the same object differently."""
        if self.change in {_MISSING, _NEW}:
            return UNPARSED not in self.name
        return not (self.source.startswith(UNPARSED) or self.candidate.startswith(UNPARSED))


def inventory_differences(source: Inventory, candidate: Inventory) -> tuple[Difference, ...]:
    """Return all differences; the parts of a missing object are not listed.

    Kinds that one account may not see are omitted: see `unreadable_kinds`.
    """
    differences: list[Difference] = []
    for kind in source.keys() & candidate.keys():
        if kind == "time zone" and source[kind] and not candidate[kind]:
            differences.append(Difference(kind="time zone tables", name="mysql.time_zone_name", change=_MISSING))
            continue
        differences += _of_kind(kind, source[kind], candidate[kind])
    missing_wholes = {
        difference.name
        for difference in differences
        if difference.change in {_MISSING, _NEW} and difference.kind in _WHOLES
    }
    relevant = [
        difference
        for difference in differences
        if not _is_part_of(difference, missing_wholes) and not _is_expected(difference, source, candidate)
    ]
    return tuple(sorted(relevant, key=lambda difference: (difference.kind, difference.name)))


def unreadable_kinds(source: Inventory, candidate: Inventory) -> list[str]:
    """Return sentences about kinds of objects that an account may not see."""
    return [
        f"accounts and their roles are not visible on the {side_name}: SELECT on mysql.* is missing"
        for side_name, inventory in (("source", source), ("candidate", candidate))
        if "account" not in inventory
    ]


_WHOLES = ("schema", "table", "view", "routine", "foreign key", "account", "time zone")
_MISSING, _NEW = "missing on the candidate", "only on the candidate"
_TEXT_SHOWN = 160


def _of_kind(
    kind: str, source: Mapping[str, Attributes], candidate: Mapping[str, Attributes]
) -> Iterator[Difference]:
    for name in sorted(source.keys() | candidate.keys()):
        if name not in candidate:
            yield Difference(kind=kind, name=name, change=_MISSING)
        elif name not in source:
            yield Difference(kind=kind, name=name, change=_NEW)
        else:
            for attribute, value in source[name].items():
                if candidate[name][attribute] != value:
                    yield Difference(
                        kind=kind,
                        name=name,
                        change=f"another {attribute}",
                        source=value,
                        candidate=candidate[name][attribute],
                    )


def _is_part_of(difference: Difference, wholes: Collection[str]) -> bool:
    """Return whether the object that contains it is missing too; names of parts begin with its name."""
    return any(difference.name.startswith(f"{name}.") for name in wholes)


def _is_expected(difference: Difference, source: Inventory, candidate: Inventory) -> bool:
    """Return whether the difference exists between any two servers and does not concern the schemas."""
    if difference.kind == "account":
        return difference.change == _NEW or difference.name not in accounts_with_access(source)
    if difference.kind == "time zone":
        return difference.change == _NEW
    if difference.kind == "grant everywhere" and difference.change == _NEW:
        return not any(difference.name.startswith(f"{account}.") for account in source.get("account", {}))
    return difference.kind == "check" and _only_json(difference.name, source, candidate)


def _only_json(check: str, source: Inventory, candidate: Inventory) -> bool:
    """Return whether a check only emulates JSON: MariaDB's JSON is text with a check, MySQL's is a type."""
    table, _, clause = check.partition(".JSON_VALID(`")
    column = f"{table}.{clause.removesuffix('`)')}"
    return bool(clause) and any(
        side["column"].get(column, {}).get("type") == "json" for side in (source, candidate)
    )


def _excerpts_at_difference(source: str, candidate: str) -> tuple[str, str]:
    """Return long texts from shortly before their first difference."""
    if max(len(source), len(candidate)) <= _TEXT_SHOWN:
        return source, candidate
    common = next(
        (at for at, pair in enumerate(zip(source, candidate, strict=False)) if pair[0] != pair[1]),
        min(len(source), len(candidate)),
    )
    start = max(0, common - 40)
    return source[start : start + _TEXT_SHOWN], candidate[start : start + _TEXT_SHOWN]
