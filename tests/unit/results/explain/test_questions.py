"""A fall of the load that the device's own figures show is no question; one that nothing shows is."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

SECONDS = 30


def slow_reads_with_a_fall(*, busy: float, queue: float) -> Case:
    """Reads of 12 ms all along; for four seconds the load does a tenth.

    Args:
        busy: share of the time in which the device works meanwhile.
        queue: operations in flight meanwhile, times those of other seconds.
    """
    load = Load(seconds=SECONDS, threads=16)
    result = columns(load, Storage(latency_ms=12.0))
    fallen = slice(14, 18)

    def column(source: str, metric: str, entity: str = "") -> Series:
        return result[SeriesKey(source=source, metric=metric, entity=entity)]

    tps = np.full(SECONDS, 200.0)
    tps[fallen] = 20.0
    result[SeriesKey(source="client", metric="tps", entity="")] = Series(t_s=column("client", "tps").t_s, value=tps)
    util, aqu = column("diskstats", "util_ratio", "sda").value, column("diskstats", "aqu_sz", "sda").value
    util[:] = 1.0
    util[fallen] = busy
    usual = float(np.mean(np.delete(aqu, np.r_[fallen])))
    aqu[fallen] = queue * usual
    grid = align(result)
    return Case(name="load", grid=grid, cell_grid=grid, threads=load.threads, cpus=8)


@pytest.mark.parametrize(
    ("busy", "queue", "asked"), [(0.92, 1.1, False), (0.88, 1.1, True), (1.0, 0.9, True), (0.2, 0.1, True)]
)
def test_a_fall_while_the_device_has_as_much_under_way_is_its_own(busy: float, queue: float, asked: bool) -> None:
    explained = explain_case(slow_reads_with_a_fall(busy=busy, queue=queue))
    slow = [finding for finding in explained.findings if finding.cause == "storage.read_latency"]
    assert slow, [finding.cause for finding in explained.findings]
    assert any(piece.metric == "unexplained_s" for piece in slow[0].evidence) is asked
