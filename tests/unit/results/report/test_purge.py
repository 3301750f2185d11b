"""The caveat on purge names each volume and step in which it was behind."""

from __future__ import annotations

from types import SimpleNamespace

from volbench.results.explain.accounts.purge import BEHIND
from volbench.results.report.rows.verdict.purge import purge_caveats


def explained(**notes: list[tuple[str, ...]]) -> SimpleNamespace:
    """A run whose cells have these notes, by volume, in one step."""
    views = {
        (volume, "write"): {
            f"{number}-{volume}": SimpleNamespace(explanation=SimpleNamespace(notes=cell))
            for number, cell in enumerate(of)
        }
        for volume, of in notes.items()
    }
    return SimpleNamespace(views=views)


def test_volumes_with_cells_that_were_behind_are_counted() -> None:
    (text,) = purge_caveats(explained(disk=[(), ()], gp3=[("other", BEHIND), ()]))  # type: ignore[arg-type]
    assert text.startswith("Purge was behind in write on gp3 (1 of 2 cells): InnoDB's history list grew")


def test_nothing_is_said_where_purge_kept_up() -> None:
    assert [*purge_caveats(explained(disk=[(), ("other",)]))] == []  # type: ignore[arg-type]
