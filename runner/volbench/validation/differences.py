"""How a candidate differs from its source, in sentences that name the object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from volbench.validation.inventory import Attributes, Inventory


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One object that is missing, new or changed. `source` and `candidate` are what each side has."""

    kind: str
    name: str
    what: str
    source: str = ""
    candidate: str = ""

    def __str__(self) -> str:
        sides = f" ({self.source!r} became {self.candidate!r})" if self.source or self.candidate else ""
        return f"{self.kind} {self.name}: {self.what}{sides}"


def inventory_differences(source: Inventory, candidate: Inventory) -> tuple[Difference, ...]:
    """All differences; the parts of an object that is missing as a whole are not listed one by one."""
    found: list[Difference] = []
    for kind in source:
        found += _of_kind(kind, source[kind], candidate.get(kind, {}))
    gone = {one.name for one in found if one.what in {_MISSING, _NEW} and one.kind in _WHOLES}
    return tuple(one for one in found if not _inside(one, gone))


_WHOLES = ("schema", "table", "view", "routine", "foreign key")
_MISSING, _NEW = "missing on the candidate", "only on the candidate"


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
