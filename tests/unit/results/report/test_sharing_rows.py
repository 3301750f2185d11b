"""Several servers on one volume in the report: what fits, what the limit carries, and what refutes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sentence_runs import volumes
from synthetic_run import OLTP, Synthetic, build_run

from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow
from volbench.core.records.report.sharing import SharingRow
from volbench.core.records.run import RunRecord
from volbench.results.report.rows.sharing import sharing_rows
from volbench.results.store.loaded_run import load_run

CAPPED = "ebs-io2?size=100GiB&iops=1002"  # operations a second, without credits
PARAMETERS: dict[str, Any] = {"test": "oltp_point_select", "threads": 2, "rate": 250, "keeps": 0.9, "p95_s": 0.02}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return _run(tmp_path_factory.mktemp("emulated"), CAPPED)


@pytest.fixture(scope="module")
def without_limits(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return _run(tmp_path_factory.mktemp("path"), "")


def _run(where: Path, profile: str) -> RunRecord:
    volume = replace(volumes(1.4)[0], profile=profile)
    return load_run(build_run(where, Synthetic(volumes=(volume,), steps=(OLTP,), repeats=3))).run


def cell(suffix: str, cell_id: str = "1", *, valid: bool = True, **values: float) -> CellRow:
    count = 1 if suffix.startswith("alone") else int(suffix)
    return CellRow(
        cell_id=cell_id,
        volume="disk",
        step=f"several/{suffix}",
        kind="instances",
        parameters={**PARAMETERS, "instances": count},
        block=0,
        repeat=1,
        valid=valid,
        metrics={name: metric(name, value) for name, value in values.items()},
    )


def alone(cell_id: str = "1", iops: float = 270.0, p95_ms: float = 3.0) -> CellRow:
    read_mib = iops * 16 / 1024
    return cell("alone", cell_id, tps_of_all=250.0, latency_ms_p95=p95_ms, iops_read=iops, read_mib_per_s=read_mib)


def level(
    count: int, cell_id: str = "1", *, share: float = 1.0, p95_ms: float | None = 4.0, iops: float | None = None
) -> CellRow:
    reads = 270.0 * count * share if iops is None else iops
    values = {
        "iops_read": reads,
        "read_mib_per_s": reads * 16 / 1024,
        "tps_of_all": 250.0 * count * share,
        "retained_share_min": share,
        "retained_share_sum": count * share,
        "fairness_index": 1.0,
        "slowdown_max": 1.0,
    }
    if p95_ms is not None:
        values["latency_ms_p95_slowest"] = p95_ms
    return cell(str(count), cell_id, valid=True, **values)


def row_of(run: RunRecord, *cells: CellRow) -> SharingRow:
    main = [each.model_copy(update={"step": "several", "metrics": {}}) for each in cells[:1]]
    (row,) = sharing_rows(run, [*main, *cells], ["disk"])
    return row


def test_the_measured_number_agrees_with_what_the_limit_carries(run: RunRecord) -> None:
    """270 of 1,002 operations a second: three fit by computation, and a fourth makes the queue grow."""
    row = row_of(run, alone(), level(2), level(3), level(4, share=0.925, p95_ms=None))
    assert (row.fit, row.breaks_at, row.predicted_fit, row.check) == (3, 4, 3, "agrees")
    assert row.used_share == pytest.approx(270 / 1002)
    assert row.levels[2].predicted_share == pytest.approx(1002 / 1080)
    text = " ".join(row.sentences)
    assert "3 servers fit on volume disk in step several, each with at least 90 % of its transactions alone" in text
    assert "the slowest p95 is beyond what was measured" in text
    assert "One server alone uses 27 % of the 1,002 operations/s" in text


def test_servers_that_wait_for_one_another_below_the_limit_are_fewer(run: RunRecord) -> None:
    row = row_of(run, alone(), level(2), level(3, p95_ms=31.0))
    assert (row.fit, row.predicted_fit, row.check) == (2, 3, "fewer")
    assert "before the limit is reached" in row.sentences[-1]


def test_a_use_that_is_not_as_computed_refutes_the_limit(run: RunRecord) -> None:
    """A CPU that is used up, for one: the volume has room."""
    row = row_of(run, alone(), level(2, share=0.6, p95_ms=4.0))
    assert (row.fit, row.predicted_fit, row.check) == (1, 3, "refuted")
    assert "2 servers should use 54 % of it, and used 32 %" in row.sentences[-1]
    assert "Use the measured number" in row.sentences[-1]


def test_no_limit_is_no_prediction(without_limits: RunRecord) -> None:
    row = row_of(without_limits, alone(), level(2))
    assert (row.fit, row.breaks_at, row.predicted_fit, row.check) == (2, None, None, "none")
    assert "more were not tried" in row.sentences[0]
    assert "was not computed" in row.sentences[-1]


def test_one_that_misses_its_objective_alone_is_said(run: RunRecord) -> None:
    row = row_of(run, alone(p95_ms=25.0), level(2, p95_ms=25.0))
    assert (row.fit, row.breaks_at, row.predicted_fit, row.check) == (0, 1, None, "none")
    assert "one server alone misses its objective" in row.sentences[-1]
    assert row.sentences[0].startswith("Not even one server keeps 90 % of its transactions alone and a p95 of 20")


def test_cells_that_disagree_do_not_fit(run: RunRecord) -> None:
    row = row_of(run, alone(), level(2), alone("2"), level(2, "2", p95_ms=30.0))
    assert (row.fit, row.breaks_at, row.levels[0].fits) == (1, 2, None)
    assert "in some cells" in row.sentences[0]


def test_a_cell_with_an_invalid_row_is_left_out_whole(run: RunRecord) -> None:
    """Its alone and its two are of one machine in one state: neither is compared with those of another cell."""
    spoilt = level(2, "2", p95_ms=900.0).model_copy(update={"valid": False})
    row = row_of(run, alone(), level(2), alone("2"), spoilt)
    assert (row.standing, row.cells, row.fit) == ("valid", 1, 2)


def test_without_a_valid_cell_the_row_says_so(run: RunRecord) -> None:
    row = row_of(run, alone(), level(2).model_copy(update={"valid": False}))
    assert row.standing == "invalid"
    assert "No cell of it is valid." in row.sentences[0]


def test_a_number_between_that_was_not_tried_is_named(run: RunRecord) -> None:
    row = row_of(run, alone(), level(2), level(4, share=0.925, p95_ms=None))
    assert (row.fit, row.breaks_at, row.check) == (2, 4, "agrees")
    assert "3 was not tried" in row.sentences[0]


def test_unequal_shares_are_called_unfair(run: RunRecord) -> None:
    unequal = level(2).model_copy(
        update={
            "metrics": {
                name: metric(name, value)
                for name, value in {
                    "tps_of_all": 300.0,
                    "retained_share_min": 0.2,
                    "retained_share_sum": 1.2,
                    "fairness_index": 1.2**2 / (2 * (0.04 + 1.0)),
                    "latency_ms_p95_slowest": 90.0,
                }.items()
            }
        }
    )
    row = row_of(run, alone(), unequal)
    assert "unfairly in step several: Jain's index is 0.692" in row.sentences[1]
    assert "the slowest kept " in row.sentences[1]  # `one kept at least` was of the one that kept least
    assert (row.predicted_fit, row.check) == (3, "none")
    assert "which nothing that was measured checks" in row.sentences[2]


def test_a_noisy_neighbour_is_counted_by_what_it_uses_alone(run: RunRecord) -> None:
    """It takes the whole limit alone, and what the quiet one leaves of it: no share of either is computed."""
    noisy = cell("alone-2", tps_of_all=990.0, latency_ms_p95=40.0, iops_read=990.0, read_mib_per_s=15.5)
    row = row_of(run, alone(), noisy, level(2, p95_ms=45.0, iops=1000.0))
    assert (row.fit, row.breaks_at, row.predicted_fit, row.check) == (1, 2, 1, "agrees")
    (both,) = row.levels
    assert (both.predicted_share, both.predicted_use) == (None, 1.0)
    assert both.used_share == pytest.approx(1000 / 1002)


def test_a_bucket_that_begins_empty_is_no_limit(tmp_path: Path) -> None:
    """It earned 1,002 a second while one used 270 of them, and gave that to four: 1,200 operations a second."""
    run = _run(tmp_path, "ebs-gp2?size=334GiB&credits=0")
    row = row_of(run, alone(), level(4, iops=1080.0))
    assert (row.limit, row.check) == ("3,000 operations/s", "agrees")


def test_a_run_without_the_step_has_no_row(run: RunRecord) -> None:
    assert sharing_rows(run, [], ["disk"]) == ()
