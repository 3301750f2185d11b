"""How a candidate differs from its source, in sentences that name the object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from volbench.validation.grants import reaching
from volbench.validation.objects import Attributes, Inventory
from volbench.validation.sql_text import UNPARSED


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One object that is missing, new or changed. `source` and `candidate` are what each side has."""

    kind: str
    name: str
    what: str
    source: str = ""
    candidate: str = ""

    def __str__(self) -> str:
        ours, theirs = _around_the_difference(self.source, self.candidate)
        sides = f" ({ours!r} became {theirs!r})" if ours or theirs else ""
        return f"{self.kind} {self.name}: {self.what}{sides}"

    @property
    def certain(self) -> bool:
        """Not so where only texts differ that could not be parsed, since servers print one thing in two ways."""
        if self.what in {_MISSING, _NEW}:
            return UNPARSED not in self.name
        return not (self.source.startswith(UNPARSED) or self.candidate.startswith(UNPARSED))


def inventory_differences(source: Inventory, candidate: Inventory) -> tuple[Difference, ...]:
    """All differences; the parts of an object that is missing as a whole are not listed one by one.

    A kind that one side could not be asked for is left out: see `unseen_kinds`.
    """
    found: list[Difference] = []
    for kind in source.keys() & candidate.keys():
        if kind == "time zone" and source[kind] and not candidate[kind]:
            found.append(Difference(kind="time zone tables", name="mysql.time_zone_name", what=_MISSING))
            continue
        found += _of_kind(kind, source[kind], candidate[kind])
    gone = {one.name for one in found if one.what in {_MISSING, _NEW} and one.kind in _WHOLES}
    kept = [one for one in found if not _inside(one, gone) and not _by_right(one, source, candidate)]
    return tuple(sorted(kept, key=lambda one: (one.kind, one.name)))


def unseen_kinds(source: Inventory, candidate: Inventory) -> list[str]:
    """Sentences about kinds of objects that an account may not see."""
    return [
        f"accounts and their roles cannot be seen on the {place}: SELECT on mysql.* is missing"
        for place, side in (("source", source), ("candidate", candidate))
        if "account" not in side and reaching(source)
    ]


_WHOLES = ("schema", "table", "view", "routine", "foreign key", "account", "time zone")
_MISSING, _NEW = "missing on the candidate", "only on the candidate"
_TEXT_SHOWN = 160


def _of_kind(
    kind: str, source: Mapping[str, Attributes], candidate: Mapping[str, Attributes]
) -> Iterator[Difference]:
    for name in sorted(source.keys() | candidate.keys()):
        if name not in candidate:
            yield Difference(kind=kind, name=name, what=_MISSING)
        elif name not in source:
            yield Difference(kind=kind, name=name, what=_NEW)
        else:
            for attribute, value in source[name].items():
                if candidate[name][attribute] != value:
                    yield Difference(
                        kind=kind, name=name, what=f"another {attribute}", source=value,
                        candidate=candidate[name][attribute],
                    )  # fmt: skip


def _inside(one: Difference, gone: Collection[str]) -> bool:
    """Whether a larger object around it is missing too: names of parts begin with those of their wholes."""
    return any(one.name.startswith(f"{name}.") for name in gone)


def _by_right(one: Difference, source: Inventory, candidate: Inventory) -> bool:
    """What differs between any two servers, and says nothing about the schemas."""
    if one.kind == "account":
        return one.what == _NEW or one.name not in reaching(source)
    if one.kind == "time zone":
        return one.what == _NEW
    if one.kind == "grant everywhere" and one.what == _NEW:
        return not any(one.name.startswith(f"{account}.") for account in source.get("account", {}))
    return one.kind == "check" and _only_json(one.name, source, candidate)


def _only_json(check: str, source: Inventory, candidate: Inventory) -> bool:
    """MariaDB's JSON is a text with a check; where the other side has the type, that checks by itself."""
    table, _, clause = check.partition(".JSON_VALID(`")
    column = f"{table}.{clause.removesuffix('`)')}"
    return bool(clause) and any(
        side["column"].get(column, {}).get("type") == "json" for side in (source, candidate)
    )


def _around_the_difference(source: str, candidate: str) -> tuple[str, str]:
    """Long texts from a little before where they part."""
    if max(len(source), len(candidate)) <= _TEXT_SHOWN:
        return source, candidate
    same = next((at for at, pair in enumerate(zip(source, candidate, strict=False)) if pair[0] != pair[1]),
                min(len(source), len(candidate)))  # fmt: skip
    begin = max(0, same - 40)
    return source[begin : begin + _TEXT_SHOWN], candidate[begin : begin + _TEXT_SHOWN]
