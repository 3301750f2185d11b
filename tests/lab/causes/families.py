"""Scores of the shapes by family, as a page in Markdown: `python -m causes families --out RUNS --to DIRECTORY`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from causes.observed import Run
from causes.scoring import first, is_acquittal, is_named, is_right, is_storage, is_wrong_and_sure

FILE = "shapes.md"
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
    return _HEAD.format(circumstances=circumstances) + "\n".join(rows) + "\n\n" + _listed(runs)


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
