"""What an objection suggests in place of a finding: the two are then one of two.

Where a figure that weakens a finding is what another cause makes, "less sure" says too little: a page that names a
slow volume, and says below it that a limit looks like that, has named the one that its evidence is against. Which
cause a suggestion is, is said by its descriptor (`CauseInfo.suggested_as`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.objection import Objection
from volbench.results.explain.rules.advice import other_threads
from volbench.results.explain.wording import amount, row


def suggested(case: Case, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return causes that stand at a level that an objection to a finding states, by name of the cause once.

    A suggestion without a level names nothing by itself: what it suggests must have been found.

    Args:
        case: the step.
        causes: findings with what speaks against them.
        descriptors: by name of a cause.
    """
    made: dict[str, Cause] = {}
    standing = {cause.cause for cause in causes}
    for cause in causes:
        for objection in cause.objections:
            name = _name(objection, descriptors)
            if name and name not in standing and objection.level is not None:
                before = made.get(name)
                made[name] = _at_level(case, name, cause, objection) if before is None else _together(before, cause)
    return [*made.values()]


def with_suggestions(causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return causes, each as one of two that an objection suggests another one for that is among them.

    Of these the one comes first that was right more often where it was one of two; what is suggested, of two alike.

    Args:
        causes: findings with what speaks against them, and what that suggests.
        descriptors: by name of a cause.
    """
    names = {cause.cause for cause in causes}
    pairs = [
        (cause.cause, name)
        for cause in causes
        for objection in cause.objections
        if (name := _name(objection, descriptors)) in names
    ]
    either = {name for pair in pairs for name in pair}
    is_suggested = {name for _, name in pairs}
    left = [_as_one_of_two(cause, names, descriptors) for cause in causes]
    undecided = sorted(
        (cause for cause in left if cause.cause in either),
        key=lambda cause: cause.cause not in is_suggested,
    )
    undecided.sort(key=lambda cause: cause.confidence, reverse=True)
    in_order = iter(undecided)
    return [next(in_order) if cause.cause in either else cause for cause in left]


def _as_one_of_two(cause: Cause, names: set[str], descriptors: Mapping[str, CauseInfo]) -> Cause:
    either = [objection for objection in cause.objections if _name(objection, descriptors) in names]
    if not either:
        return cause
    rows = tuple(
        row(
            "one_of_two",
            _name(objection, descriptors),
            "1",
            f"{_name(objection, descriptors)} is the other of the two: {objection.text}",
        )
        for objection in either
    )
    return replace(
        cause,
        one_of_two=True,
        objections=tuple(objection for objection in cause.objections if objection not in either),
        evidence=(*cause.evidence, *rows),
    )


def _name(objection: Objection, descriptors: Mapping[str, CauseInfo]) -> str:
    """The cause that it suggests; empty: none."""
    if not objection.suggests or objection.refutes:
        return ""
    return next((info.name for info in descriptors.values() if info.suggested_as == objection.suggests), "")


def _at_level(case: Case, name: str, cause: Cause, objection: Objection) -> Cause:
    level, direction = objection.level or 0.0, objection.direction
    which, of_which = ("", "") if direction is None else (f"{direction}_", f" of {direction}s")
    text = f"the volume gives {amount(level, 'iops')}{of_which} then, whatever waits for it"
    return replace(
        cause,
        cause=name,
        checks=(True, None),
        one_of_two=True,
        objections=(),
        rebuilt=None,
        evidence=(
            *(piece for piece in cause.evidence if piece.metric == "loss"),
            row(f"{which}iops", level, "1/s", text),
            row("one_of_two", cause.cause, "1", f"{cause.cause} is the other of the two: {objection.text}"),
            row("decide", None, "1", f"this decides: {other_threads(case)}"),
        ),
        advice=f"First tell it from {cause.cause}: {other_threads(case)}.",
        volume_advice="",
    )


def _together(made: Cause, cause: Cause) -> Cause:
    """A suggestion that explains a second finding as well."""
    shares = [share for share in (made.share, cause.share) if share is not None]
    return replace(
        made,
        share=min(1.0, sum(shares)) if shares else None,
        window_s=(min(made.window_s[0], cause.window_s[0]), max(made.window_s[1], cause.window_s[1])),
    )
