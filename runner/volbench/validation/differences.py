"""How a candidate differs from its source, in sentences that name the object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from volbench.validation.grants import accounts_with_access
from volbench.validation.objects import Attributes, Inventory
from volbench.validation.sql_text import UNPARSED


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One object that is missing, new or changed. `source` and `candidate` are what each side has."""

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
        """Not so where only texts differ that could not be parsed, since servers print one thing in two ways."""
        if self.change in {_MISSING, _NEW}:
            return UNPARSED not in self.name
        return not (self.source.startswith(UNPARSED) or self.candidate.startswith(UNPARSED))


def inventory_differences(source: Inventory, candidate: Inventory) -> tuple[Difference, ...]:
    """All differences; the parts of an object that is missing as a whole are not listed one by one.

    A kind that one side could not be asked for is left out: see `unreadable_kinds`.
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
    """Sentences about kinds of objects that an account may not see."""
    return [
        f"accounts and their roles cannot be seen on the {side_name}: SELECT on mysql.* is missing"
        for side_name, inventory in (("source", source), ("candidate", candidate))
        if "account" not in inventory and accounts_with_access(source)
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
                        kind=kind, name=name, change=f"another {attribute}", source=value,
                        candidate=candidate[name][attribute],
                    )  # fmt: skip


def _is_part_of(difference: Difference, wholes: Collection[str]) -> bool:
    """Whether a larger object around it is missing too: names of parts begin with those of their wholes."""
    return any(difference.name.startswith(f"{name}.") for name in wholes)


def _is_expected(difference: Difference, source: Inventory, candidate: Inventory) -> bool:
    """What differs between any two servers, and says nothing about the schemas."""
    if difference.kind == "account":
        return difference.change == _NEW or difference.name not in accounts_with_access(source)
    if difference.kind == "time zone":
        return difference.change == _NEW
    if difference.kind == "grant everywhere" and difference.change == _NEW:
        return not any(difference.name.startswith(f"{account}.") for account in source.get("account", {}))
    return difference.kind == "check" and _only_json(difference.name, source, candidate)


def _only_json(check: str, source: Inventory, candidate: Inventory) -> bool:
    """MariaDB's JSON is a text with a check; where the other side has the type, that checks by itself."""
    table, _, clause = check.partition(".JSON_VALID(`")
    column = f"{table}.{clause.removesuffix('`)')}"
    return bool(clause) and any(
        side["column"].get(column, {}).get("type") == "json" for side in (source, candidate)
    )


def _excerpts_at_difference(source: str, candidate: str) -> tuple[str, str]:
    """Long texts from a little before where they part."""
    if max(len(source), len(candidate)) <= _TEXT_SHOWN:
        return source, candidate
    common = next((at for at, pair in enumerate(zip(source, candidate, strict=False)) if pair[0] != pair[1]),
                min(len(source), len(candidate)))  # fmt: skip
    start = max(0, common - 40)
    return source[start : start + _TEXT_SHOWN], candidate[start : start + _TEXT_SHOWN]
