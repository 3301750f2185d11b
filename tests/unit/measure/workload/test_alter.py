"""The alter step's model, and what a load loses beside it, from recorded intervals."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from volbench.core.records.steps.alter import AlterStep
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.measure.workload.oltp.load_meter import losses
from volbench.measure.workload.oltp.sysbench import LineParser, ReportInterval, step_options

RECORDED = Path(__file__).parent / "recorded" / "sysbench-1.0.20-stall.txt"


def intervals() -> list[ReportInterval]:
    parser = LineParser()
    records = (parser.feed(line) for line in RECORDED.read_text().splitlines())
    return [record for record in records if isinstance(record, ReportInterval)]


def test_the_longest_stall_and_the_lost_transactions() -> None:
    """Of the recorded stall, against the rate of the seconds that were not stalled."""
    every = intervals()
    stalled = [interval for interval in every if not interval.events]
    busy = [interval for interval in every if interval.events]
    lost = {name: value.value for name, value in losses(stalled, busy).items()}
    seconds = sum(interval.interval_s for interval in stalled)
    rate = sum(interval.events for interval in busy) / sum(interval.interval_s for interval in busy)
    assert seconds > 0
    assert lost == {"stall_s_max": pytest.approx(seconds), "transactions_lost": pytest.approx(rate * seconds)}


def test_without_seconds_alone_nothing_is_known_to_be_lost() -> None:
    """Missing is absent, and a load that was faster beside the step has lost nothing."""
    every = intervals()
    assert set(losses(every, [])) == {"stall_s_max"}
    stalled = [interval for interval in every if not interval.events]
    assert losses(every, stalled)["transactions_lost"].value == 0


def test_a_load_takes_both_kinds_beside_it() -> None:
    """A step without a kind is a dump, as before; another kind is refused."""
    load = OltpStep.model_validate({"concurrent": [{"tool": "mydumper"}, {"kind": "alter", "method": "pt-osc"}]})
    assert [type(step) for step in load.concurrent] == [DumpStep, AlterStep]
    assert load.parameters()["concurrent"] == "mydumper+alter-pt-osc"
    assert OltpStep.model_validate_json(load.model_dump_json(by_alias=True)) == load
    with pytest.raises(ValidationError, match="nope"):
        OltpStep.model_validate({"concurrent": [{"kind": "nope"}]})


def test_errors_that_a_change_causes_restart_a_transaction_and_do_not_end_sysbench() -> None:
    """Recorded on MariaDB: pt-osc's rename makes a prepared statement fail with 1146; ALTER TABLE is 1412."""
    load = OltpStep.model_validate({"concurrent": [{"kind": "alter", "method": "pt-osc"}]})
    assert step_options(load)["mysql-ignore-errors"] == "1213,1020,1205,1412,1146"
    assert "mysql-ignore-errors" not in step_options(OltpStep.model_validate({"concurrent": [{"kind": "dump"}]}))
    chosen = load.model_copy(update={"options": {"mysql-ignore-errors": "1213"}})
    assert step_options(chosen)["mysql-ignore-errors"] == "1213"


@pytest.mark.parametrize("wrong", [{"method": "instant", "change": "add_index"}, {"table": "a`b"}, {"method": "x"}])
def test_what_cannot_be_run_is_refused_in_the_suite(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        AlterStep.model_validate(wrong)
