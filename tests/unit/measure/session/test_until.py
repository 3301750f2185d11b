"""What `--until` and `--set repeats` together mean."""

from __future__ import annotations

import pytest

from volbench.errors import UsageError
from volbench.measure.session.planner import until_settings


@pytest.mark.parametrize("repeats", ["1", "2", "21"])
def test_a_number_of_cells_without_a_look_contradicts_until_decided(repeats: str) -> None:
    """Without this, the option would be dropped without a word: such a suite runs every cell."""
    with pytest.raises(UsageError, match=f"3 to 20 cells a volume, not {repeats}"):
        until_settings("decided", ["seed=2", f"repeats={repeats}"])


@pytest.mark.parametrize(
    ("until", "settings"), [("decided", ["repeats=3"]), ("all_cells", ["repeats=1"]), (None, ["repeats=1"])]
)
def test_what_agrees_is_taken_as_it_is(until: str | None, settings: list[str]) -> None:
    assert until_settings(until, settings)[-1] == settings[-1]
