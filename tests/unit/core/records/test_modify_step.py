"""The step `modify` in a suite: what a modification needs of its load."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from volbench.core.base.units import GIB
from volbench.core.records.steps.modify import BEFORE_S, ClaimChange, ModifyStep
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


VOLUME = "vol-0123456789abcdef0"


def test_a_real_volume_is_waited_for_within_its_load() -> None:
    step = ModifyStep.model_validate({"to": "ebs-gp3", "ebs_volume": VOLUME, "wait": "10min", "watch": "30s"})
    assert step.end_s > BEFORE_S + 600 + 30
    with pytest.raises(ValidationError, match="that nobody asks for"):
        load(step.end_s - 1, ebs_volume=VOLUME, wait="10min", watch="30s")
    load(step.end_s, ebs_volume=VOLUME, wait="10min", watch="30s")


def test_the_results_of_a_real_volume_show_no_assumption() -> None:
    real = ModifyStep.model_validate({"to": "ebs-gp3", "ebs_volume": VOLUME})
    assert real.parameters() == {"to": "ebs-gp3", "ebs_volume": VOLUME, "watch_s": 15.0}
    emulated = ModifyStep.model_validate({"to": "ebs-gp3"})
    assert set(emulated.parameters()) == {"to", "takes_s", "dip", "watch_s"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"region": "eu-west-1"}, "belong to `ebs_volume`"),
        ({"wait": "10min"}, "belong to `ebs_volume`"),
        ({"ebs_volume": VOLUME, "takes": "10s"}, "are assumptions"),
        ({"ebs_volume": VOLUME, "dip": 2}, "are assumptions"),
        ({"ebs_volume": "vol-1"}, "match pattern"),
        ({"ebs_volume": "vol-0123456789ABCDEF0"}, "match pattern"),
        ({"ebs_volume": VOLUME, "region": "eu/west"}, "match pattern"),
        ({"ebs_volume": VOLUME, "wait": "3d"}, "less than or equal"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModifyStep.model_validate({"to": "ebs-gp3", **keys})


@pytest.mark.parametrize(
    ("to", "change"),
    [
        ("claim?attributes_class=fast", ClaimChange(attributes_class="fast")),
        ("claim?size=200GiB", ClaimChange(size_bytes=200 * GIB)),
        ("claim?size=200Gi&attributes_class=a.b-c", ClaimChange(attributes_class="a.b-c", size_bytes=200 * GIB)),
        ("ebs-gp3?size=200GiB", None),
    ],
)
def test_a_claim_gets_a_class_a_size_or_both(to: str, change: ClaimChange | None) -> None:
    step = ModifyStep.model_validate({"to": to})
    assert step.claim_change == change
    assert step.is_real == (change is not None)


def test_the_results_of_a_claim_show_no_assumption_and_it_is_waited_for_within_its_load() -> None:
    step = ModifyStep.model_validate({"to": "claim?size=200GiB", "wait": "10min", "watch": "30s"})
    assert step.parameters() == {"to": "claim?size=200GiB", "wait_s": 600.0, "watch_s": 30.0}
    assert step.end_s > BEFORE_S + 600 + 30


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"to": "claim"}, "another VolumeAttributesClass, a larger size or both"),
        ({"to": "claim?"}, "a larger size or both"),
        ({"to": "claim?iops=6000"}, "a larger size or both"),
        ({"to": "claim?size=1GiB&size=2GiB"}, "a larger size or both"),
        ({"to": "claim?attributes_class="}, "is not the name of a class"),
        ({"to": "claim?attributes_class=Fast"}, "is not the name of a class"),
        ({"to": "claim?size=large"}, "a size such as"),
        ({"to": "claim?size=2TiB", "ebs_volume": VOLUME}, "leave out `ebs_volume`"),
        ({"to": "claim?size=2TiB", "region": "eu-west-1"}, "belong to `ebs_volume`"),
        ({"to": "claim?size=2TiB", "takes": "10s"}, "are assumptions"),
    ],
)
def test_a_claim_that_cannot_be_asked_for_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModifyStep.model_validate(keys)
