"""What cuts cost, in the words of a headline: commits that were lost, a server that did not come back, damage.

A volume that is fast and loses what it acknowledged is no better volume, so no headline leaves that out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from volbench.core.records.report import DurabilityRow

LOSSES_MAX = 2
"""Volumes and settings whose figures a headline has, the gravest first; the rest is named."""
NAMED_MAX = 3
"""Volumes and settings with losses that a headline names; of more, the few without."""
_EVENTS = {"power_cut": ("power cut", "power cuts"), "kill_server": ("kill of the server", "kills of the server")}


def with_losses(text: str, rows: Sequence[DurabilityRow]) -> str:
    """Return the text with what cuts cost the volumes at its end; the text alone where they cost nothing."""
    losses = loss_text(rows)
    return f"{text}; but {losses}" if losses else text


def loss_text(rows: Sequence[DurabilityRow]) -> str:
    """Return `b lost 5 of 200 acknowledged commits and did not recover from the power cut`; else nothing.

    After what cuts cost stands what they did not: `; c lost none of 180`.
    """
    costly = sorted(filter(_is_costly, rows), key=_gravity, reverse=True)
    clauses = [f"{subject_of(row, rows)} {' and '.join(_costs(row))}" for row in costly[:LOSSES_MAX]]
    further = {subject_of(row, rows): row for row in reversed(costly[LOSSES_MAX:])}
    if further:
        subjects = _joined(list(reversed(further)))
        clauses.append(f"{subjects} {_cost_in_short(further.values())} too")
    return "; ".join(filter(None, (", and ".join(clauses), without_loss(rows) if costly else "")))


def losing_volumes(rows: Sequence[DurabilityRow], *, praised: str = "") -> str:
    """Return one clause on all volumes and settings that cuts cost something: of one its figures, of more names.

    Of many it has the few that cuts cost nothing, and `praised` where cuts cost that one something: a reader who is
    told that it is best would have to conclude so.
    """
    costly = sorted(filter(_is_costly, rows), key=_gravity, reverse=True)
    if len(costly) == 1:
        return f"{subject_of(costly[0], rows)} {' and '.join(_costs(costly[0]))}"
    if not costly:
        return ""
    cost = _cost_in_short(costly, "lost acknowledged commits")
    subjects = list(dict.fromkeys(subject_of(row, rows) for row in costly))
    lossless = [row for row in rows if not _is_costly(row)]
    safe = list(dict.fromkeys(subject_of(row, rows) for row in lossless if row.acknowledged_commits))
    if len(subjects) > NAMED_MAX and 0 < len(safe) == len(lossless) <= LOSSES_MAX:
        too = f", {praised} too" if praised in subjects else ""
        return f"in the crash tests all but {_joined(safe)} {cost}{too}"
    return f"{_joined(subjects)} {cost}"


def without_loss(rows: Sequence[DurabilityRow]) -> str:
    """Return which volumes and settings lost nothing of how much; empty where each lost something."""
    safe = [row for row in rows if not _is_costly(row) and row.acknowledged_commits]
    if len(safe) > LOSSES_MAX:
        return f"the other {len(safe)} lost none of {sum(row.acknowledged_commits for row in safe):,}"
    texts = [f"{subject_of(row, rows)} lost none of {row.acknowledged_commits:,}" for row in safe]
    return _joined(texts)


def of_volumes(rows: Sequence[DurabilityRow], names: Collection[str]) -> list[DurabilityRow]:
    """Return the rows of these volumes."""
    return [row for row in rows if row.volume in names]


def subject_of(row: DurabilityRow, rows: Sequence[DurabilityRow]) -> str:
    """Return the volume, with the settings that set it apart from its siblings."""
    siblings = [each for each in rows if each.volume == row.volume]
    names = sorted({name for sibling in siblings for name in sibling.settings})
    differing = [name for name in names if len({sibling.settings.get(name) for sibling in siblings}) > 1]
    settings = " ".join(f"{name}={row.settings[name]}" for name in differing if name in row.settings)
    return f"{row.volume} with {settings}" if settings else row.volume


def event_text(row: DurabilityRow, cuts: int) -> str:
    """Return `power cut`, `kills of the server`."""
    singular, plural = _EVENTS.get(row.fault, _EVENTS["kill_server"])
    return singular if cuts == 1 else plural


def _joined(texts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _is_costly(row: DurabilityRow) -> bool:
    return bool(row.lost_commits or row.failed_recoveries or row.torn_or_damaged)


def _gravity(row: DurabilityRow) -> tuple[float, float, int]:
    failed = row.failed_recoveries / row.cuts if row.cuts else 0.0
    lost = row.lost_commits / row.acknowledged_commits if row.acknowledged_commits else 0.0
    return failed, lost, row.torn_or_damaged


def _cost_in_short(rows: Iterable[DurabilityRow], lost: str = "lost commits") -> str:
    kinds = {
        "did not recover" if row.failed_recoveries else lost if row.lost_commits else "suffered damage"
        for row in rows
    }
    return " or ".join(sorted(kinds))


def _costs(row: DurabilityRow) -> Iterator[str]:
    if row.lost_commits:
        yield f"lost {row.lost_commits:,} of {row.acknowledged_commits:,} acknowledged commits"
    if row.torn_or_damaged:
        yield f"has {row.torn_or_damaged:,} torn commits or damaged rows or tables"
    if row.failed_recoveries and row.cuts == 1:
        yield f"did not recover from the {event_text(row, 1)}"
    elif row.failed_recoveries:
        yield f"did not recover from {row.failed_recoveries} of {row.cuts} {event_text(row, row.cuts)}"
