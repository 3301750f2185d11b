"""Scores of the shapes by family, as a page in Markdown: `python -m causes families --out RUNS --to DIRECTORY`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from causes.observed import Run
from causes.scoring import (
    FOREIGN as FOREIGN_CAUSES,
)
from causes.scoring import (
    NONE,
    NOTHING,
    SURE,
    first,
    is_acquittal,
    is_named,
    is_right,
    is_storage,
    is_wrong_and_sure,
)

FILE = "shapes.md"
FOREIGN = frozenset(FOREIGN_CAUSES)
FITTED = frozenset({"stands", "sleeps", "buckets", "neighbours", "splits", "tails"})
"""Families whose series were looked at while rules were written; no rule was changed for a run of the others."""
_HEAD = """# Shapes drawn at random

What `explain` names for MariaDB where the lab makes a cause on purpose (`tests/lab/causes/shapes.yaml`): volumes of
`shapes.c` behind nbdkit, nbdfuse and a loop device, servers that are stopped, file systems that are frozen,
settings that make a server wait, harmless neighbours. All of it is our own construction, most truths allow two or
three names, and the runs are few. {circumstances}

A run counts where the lab's own counters prove that the cause acted. *named*: one cause is named, not one of two
and not nothing. *right*: of the named, the first is what was made. *wrong and sure*: of all that count, wrong with
a confidence of 0.9 and more. *acquitted*: storage was made, and nothing that has to do with storage is named.

Made with `make lab-causes`, which resumes where it stopped, and `python -m causes families`.

| family | rules fitted to it | runs | count | named | right | wrong and sure | acquitted |
|---|---|--:|--:|--:|--:|--:|--:|
"""


def page(runs: Sequence[Run], circumstances: str) -> str:
    """The table by family, its sums over fitted and left-out families, and each run that is not right."""
    by_family: dict[str, list[Run]] = {}
    for run in runs:
        by_family.setdefault(run.family, []).append(run)
    rows = [
        _row(family, "yes" if family in FITTED else "no", chosen) for family, chosen in sorted(by_family.items())
    ]
    for label, fitted in (("fitted", True), ("left out", False)):
        chosen = [run for run in runs if (run.family in FITTED) is fitted]
        rows.append(_row(f"**{label}**", "", chosen))
    head = _HEAD.format(circumstances=circumstances)
    return head + "\n".join(rows) + "\n\n" + "\n".join(_figures(runs)) + "\n\n" + _listed(runs)


def _figures(runs: Sequence[Run]) -> Iterator[str]:
    """What is asked of runs that were not known before, with counts."""
    count = [run for run in runs if run.injected]
    named = [run for run in count if is_named(run)]
    right = [run for run in named if is_right(run)]
    storage = [run for run in count if is_storage(run)]
    clean = [run for run in count if run.truth == (NONE,)]
    foreign = [run for run in count if _made(run) & FOREIGN]
    alone = [run for run in count if not (_made(run) | set(run.accepted)) & FOREIGN]
    sure = [run for run in named if (run.findings[0].confidence or 0.0) >= SURE]
    rebuilt = [run.findings[0].evidence.get("check") for run in sure]
    comparable = [value for value in rebuilt if value in ("rebuilt", "not rebuilt")]
    yield "## Figures\n"
    yield "| figure | asked | counted |"
    yield "|---|--:|--:|"
    for name, target, count_of, total in (
        ("first cause right, of those that name one", ">= 90 %", len(right), len(named)),
        ("named", ">= 80 %", len(named), len(count)),
        ("wrong with 0.9 and more", "<= 2 %", sum(map(is_wrong_and_sure, count)), len(count)),
        ("storage acquitted wrongly", "<= 2 %", sum(map(is_acquittal, storage)), len(storage)),
        ("clean accused", "<= 2 %", sum(first(run) not in (NONE, NOTHING) for run in clean), len(clean)),
        ("clean acquitted", ">= 70 %", sum(first(run) == NONE for run in clean), len(clean)),
        ("right findings with 0.9 and more", ">= 60 %", sum(run in sure for run in right), len(right)),
        ("real I/O of others named", ">= 85 %", sum(map(_names_foreign, foreign)), len(foreign)),
        ("I/O of others named falsely", "<= 2 %", sum(map(_names_foreign, alone)), len(alone)),
        ("p95 of sure findings within 25 %", ">= 90 %", comparable.count("rebuilt"), len(comparable)),
    ):
        share = f" ({count_of / total:.0%})" if total else ""
        yield f"| {name} | {target} | {count_of} of {total}{share} |"


def _made(run: Run) -> set[str]:
    return {name for alike in run.truth for name in alike.split("|")}


def _names_foreign(run: Run) -> bool:
    """Whether others' I/O is among what is named."""
    return any(finding.cause in FOREIGN for finding in run.findings)


def _row(name: str, fitted: str, runs: Sequence[Run]) -> str:
    count = [run for run in runs if run.injected]
    named = [run for run in count if is_named(run)]
    storage = [run for run in count if is_storage(run)]
    figures: Mapping[str, tuple[int, int]] = {
        "named": (len(named), len(count)),
        "right": (sum(map(is_right, named)), len(named)),
        "sure": (sum(map(is_wrong_and_sure, count)), len(count)),
        "acquitted": (sum(map(is_acquittal, storage)), len(storage)),
    }
    shares = " | ".join(f"{piece} of {total}" for piece, total in figures.values())
    return f"| {name} | {fitted} | {len(runs)} | {len(count)} | {shares} |"


def _listed(runs: Sequence[Run]) -> str:
    remaining = [run for run in runs if run.injected and not (is_named(run) and is_right(run))]
    uncounted = [run for run in runs if not run.injected]
    lines = ["## Not right", "", "| run | made | named first |", "|---|---|---|"]
    lines += [
        f"| {run.name} (seed {run.lab_seed}) | {', '.join(run.truth).replace('|', ' or ')} | {_first(run)} |"
        for run in remaining
    ]
    lines += ["", "## Not counted", "", "| run | why |", "|---|---|"]
    lines += [
        f"| {run.name} (seed {run.lab_seed}) | {run.failure or '; '.join(run.missing)} |" for run in uncounted
    ]
    return "\n".join(lines) + "\n"


def _first(run: Run) -> str:
    if not run.findings:
        return "nothing"
    return f"{first(run)} {run.findings[0].confidence or 0:.2f}{'' if is_named(run) else ' (one of two)'}"
