"""The step `modify` in a suite: what a modification needs of its load."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from volbench.core.records.steps.modify import BEFORE_S
from volbench.core.records.steps.oltp import OltpStep


def load(duration_s: float, **modification: Any) -> OltpStep:
    concurrent = [{"kind": "modify", "to": "ebs-gp3", **modification}]
    return OltpStep.model_validate({"name": "load", "duration": duration_s, "concurrent": concurrent})


def test_a_modification_that_ends_with_its_load_is_taken() -> None:
    assert load(BEFORE_S + 75, takes="20s", watch="30s", start_after="25s").concurrent[0].kind == "modify"


@pytest.mark.parametrize("longer", [{"takes": "21s"}, {"watch": "31s"}, {"start_after": "26s"}])
def test_operations_of_a_load_that_ended_are_no_dip(longer: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="that nobody asks for") as refused:
        load(BEFORE_S + 75, **{"takes": "20s", "watch": "30s", "start_after": "25s", **longer})
    assert f"duration: {BEFORE_S + 76:g}s" in str(refused.value)
