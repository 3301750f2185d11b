"""The share of an interval in which a signal kept the volume slow."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.core.records.modulation import DETAIL, Modulation, Slot, modulation_of
from volbench.results.response.signal import slow_share

SLOTS = (
    Slot(t0_s=0.0, t1_s=4.0, slow=("read",)),
    Slot(t0_s=4.2, t1_s=8.0, slow=()),
    Slot(t0_s=8.0, t1_s=12.0, slow=("read", "write")),
)
MODULATION = Modulation(means="emulator", factor=4.0, slots=SLOTS)


def test_shares_follow_the_slots_and_a_change_under_way_counts_half() -> None:
    share = slow_share(MODULATION, "read", np.arange(0.0, 15.0))
    assert share is not None
    assert share == pytest.approx([1, 1, 1, 1, 0.1, 0, 0, 0, 1, 1, 1, 1, 0, 0])


def test_what_never_changed_is_no_signal() -> None:
    always = Modulation(means="emulator", factor=4.0, slots=(Slot(t0_s=0.0, t1_s=9.0, slow=("read",)),))
    assert slow_share(always, "read", np.arange(5.0)) is None
    assert slow_share(always, "write", np.arange(5.0)) is None


def test_details_that_hold_no_modulation_are_none() -> None:
    assert modulation_of({}) is None
    assert modulation_of({DETAIL: {"slots": "x"}}) is None
    assert modulation_of({DETAIL: {"means": "emulator", "factor": 2, "slots": []}}) is None
    assert modulation_of({DETAIL: MODULATION.model_dump(mode="json")}) == MODULATION
