"""A cause that claims waits at the device is refuted where the latency did not follow the volume's waiting time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_response import Load, cell, square_wave

from volbench.core.records.report import EvidenceRow
from volbench.results.explain.cause import Cause
from volbench.results.explain.check.response import volume_share_max, without_response
from volbench.results.explain.findings import Explanation
from volbench.results.explain.pooling import finding_rows, refuted_rows
from volbench.results.response.estimate import estimate
from volbench.results.response.model import CONTRADICTION, Response
from volbench.results.response.samples import CellSamples


def modulated(load: Load) -> CellSamples:
    rng = np.random.default_rng(3)
    reads = square_wave(60, low_ms=0.5, high_ms=2.0, slot_s=4, rng=rng)
    return cell(load, {"read": reads}, rng=rng, signals={"read": (reads > 1).astype(float)})


def share_max(samples: CellSamples) -> float | None:
    return volume_share_max(estimate([samples]), [samples])


def latency_cause(share: float) -> Explanation:
    cause = Cause(
        cause="storage.read_latency",
        window_s=(0.0, 60.0),
        share=share,
        checks=(True,),
        evidence=(EvidenceRow(metric="r_await_ms", value=1.0, unit="ms", text=""),),
        advice="",
    )
    return Explanation(findings=(cause,), notes=())


def named(share: float, most: float | None) -> tuple[list[str], list[str]]:
    cells = {"01-v": latency_cause(share)}
    rows = finding_rows("v", "load", cells, volume_share_max=most)
    refuted = refuted_rows("v", "load", cells, volume_share_max=most)
    return [row.cause for row in rows], [row.cause for row in refuted]


def test_a_load_that_does_not_follow_the_volume_does_not_wait_for_it() -> None:
    most = share_max(modulated(Load(waits={"read": 0.0}, cpu_ms=20.0)))
    assert most is not None
    assert most < 0.1
    assert named(0.6, most) == ([], ["storage.read_latency"])


def test_a_slope_below_zero_is_none_with_its_error() -> None:
    """-15.5 ms [-31.7, 2.59] a millisecond left 39 % for reads, which took 85 % by the server's own times."""
    samples = modulated(Load(waits={"read": 20.0}))
    response = estimate([samples])
    assert isinstance(response, Response)
    (slope,) = response.slopes
    wide = replace(response, slopes=(replace(slope, value=-15.5, low=-31.7, high=2.59),))
    latency_ms = float(np.average(samples.latency_ms, weights=samples.finished))
    await_ms = float(np.nanmean(samples.awaits_ms["read"]))
    most = volume_share_max(wide, [samples])
    assert most == pytest.approx(min(1.0, CONTRADICTION * 18.09 * await_ms / latency_ms))
    assert most is not None
    assert most > 0.9


def test_a_load_that_follows_the_volume_keeps_its_cause() -> None:
    most = share_max(modulated(Load(waits={"read": 20.0})))
    assert most is not None
    assert most > 0.7
    assert named(0.85, most) == (["storage.read_latency"], [])


def test_nothing_is_refuted_where_the_run_does_not_tell_what_waits_cost() -> None:
    steady = cell(Load(waits={"read": 20.0}), {"read": np.full(600, 1.0)}, rng=np.random.default_rng(1))
    assert share_max(steady) is None
    assert named(0.9, None) == (["storage.read_latency"], [])


@pytest.mark.parametrize(("claimed", "most", "refutes"), [(0.6, 0.3, True), (0.4, 0.3, False), (0.2, 0.1, False)])
def test_a_claim_is_refuted_only_well_beyond_what_the_response_allows(
    claimed: float, most: float, refutes: bool
) -> None:
    assert (without_response(claimed, most) is not None) is refutes
