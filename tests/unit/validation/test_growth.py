"""When a volume is full: by arithmetic, binary logs with their plateau, undecided where writes were not seen."""

from __future__ import annotations

from typing import Any

import pytest

from volbench.errors import EnvironmentLacks, UsageError
from volbench.records.gate import Decision
from volbench.records.validation import CheckRow, GrowthOutlook, GrowthPlan, ReplayClass, Replayed
from volbench.suite.validation import check_validation_plan
from volbench.validation.file_sizes import Space, Stored, kept_s
from volbench.validation.growth import full_after_s, growth_check, growth_of, outlook_of_growth, volume_bytes
from volbench.validation.volume_load import Count

DAY_S = 86_400.0
MIB = 2**20
GIB = 2**30


def stored(
    orders: int = 100 * MIB,
    *,
    binlog: int | None = 0,
    days: float | None = 30.0,
    items: int = 64 * MIB,
    created: int = 0,
) -> Stored:
    """Two tables of a shop; extents of 4 MiB."""
    spaces = {
        f"shop/{name}": Space(file_bytes=size, filled_bytes=size, step_bytes=4 * MIB)
        for name, size in (("orders", orders), ("items", items))
    }
    return Stored(
        spaces=spaces, created_bytes=created, passing_bytes=32 * MIB, redo_bytes=100 * MIB,
        binlog_bytes=binlog, binlog_file_bytes=GIB, kept_s=None if days is None else days * DAY_S,
    )  # fmt: skip


def later(orders: int = 100 * MIB, *, created: int = 900 * MIB, **more: Any) -> Stored:
    """After a replay that created more pages than files can have grown by."""
    return stored(orders, created=created, **more)


def replayed(
    *, log_s: float = 600.0, left_out: dict[str, int] | None = None, errors: int = 0, sent: int = 6000,
    shape: str = "insert into orders values (?)",
) -> Replayed:  # fmt: skip
    one = ReplayClass(
        fingerprint=shape, statements=6000, errors=errors, logged_ms_p50=1, logged_ms_p95=1, service_ms_p50=1,
        service_ms_p95=1, response_ms_p50=1, response_ms_p95=1,
    )  # fmt: skip
    return Replayed(
        statements=6000, sent=sent, left_out=left_out or {}, log_s=log_s, speed=1, planned_s=log_s, took_s=log_s,
        peak_per_s=10, connections=4, shared_connections=0, whole_seconds=False, writes=True, late=0,
        late_share=0, client_cpu_share=0.1, errors={}, classes=(one,),
    )  # fmt: skip


def counts(number: int = 100, *, uneven: float = 0.0) -> list[Count]:
    """Readings with redo that grows evenly, or by more in every other tenth."""
    found, redo = [], 0.0
    for at in range(number + 1):
        found.append(
            Count(t_s=at, reads=0, writes=0, read_bytes=0, written_bytes=0, dirty_pages=0, redo_bytes=redo)
        )
        redo += 1000 * (1 + uneven * (at * 10 // number % 2))
    return found


def judged(
    before: Stored, after: Stored, found: Replayed, *, measured: list[Count] | None = None, **plan: Any
) -> tuple[GrowthOutlook | None, CheckRow]:
    checked = GrowthPlan.model_validate({"volume": "ebs-gp3?size=100GiB", "lasts": "90d", **plan})
    growth = growth_of(before, after, counts() if measured is None else measured, found)
    outlook = outlook_of_growth(growth, after, checked, volume_bytes(checked)) if growth else None
    return outlook, growth_check(outlook, found, checked)


def test_what_the_log_adds_is_its_growth_of_files_give_or_take_a_step() -> None:
    """60 MiB in ten minutes are 8.4 GiB a day: 90 GiB are full after eleven days."""
    outlook, row = judged(stored(), later(orders=160 * MIB), replayed())
    assert outlook is not None
    assert outlook.data_per_day == pytest.approx(60 * MIB * 144)
    assert (outlook.data_per_day_low, outlook.data_per_day_high) == pytest.approx((56 * MIB * 144, 64 * MIB * 144))
    assert outlook.used_bytes == (160 + 64 + 132) * MIB
    assert outlook.full_s == pytest.approx((90 * GIB - 356 * MIB) / (60 * MIB / 600))
    assert (row.decision, "90% of 100 GiB are used after 10.6 days" in row.text) == ("no-go", True), row.text
    assert judged(stored(), later(orders=160 * MIB), replayed(), lasts="7d")[1].decision == "go"


@pytest.mark.parametrize(("lasts", "decision"), [("9d", "go"), ("10.6d", "undecided"), ("13d", "no-go")])
def test_the_ends_of_the_interval_decide(lasts: str, decision: Decision) -> None:
    assert judged(stored(), later(orders=160 * MIB), replayed(), lasts=lasts)[1].decision == decision


def test_a_load_that_writes_unevenly_is_known_less() -> None:
    even, _ = judged(stored(), later(orders=160 * MIB), replayed())
    uneven, _ = judged(stored(), later(orders=160 * MIB), replayed(), measured=counts(uneven=3.0))
    assert even is not None
    assert uneven is not None
    assert uneven.data_per_day_low < 0.8 * even.data_per_day_low
    assert uneven.data_per_day == even.data_per_day


def test_a_file_that_did_not_grow_yet_may_have_been_filled_by_a_step() -> None:
    outlook, row = judged(stored(), later(), replayed(), lasts="365d")
    assert outlook is not None
    assert (outlook.data_per_day, outlook.data_per_day_low, outlook.full_s) == (0, 0, None)
    assert outlook.data_per_day_high == pytest.approx(4 * MIB * 144)
    assert row.decision == "undecided"
    reads, row = judged(stored(), later(), replayed(shape="select ?"), lasts="365d")
    assert reads is not None
    assert (reads.full_s_low, row.decision) == (None, "go")


def test_no_file_is_filled_by_more_pages_than_were_created() -> None:
    """A short replay of a table that grows slowly: its file may grow by 4 MiB at once, but 1 MiB was added."""
    waiting, _ = judged(stored(), later(created=MIB), replayed())
    extended, _ = judged(stored(), later(orders=104 * MIB, created=MIB), replayed())
    assert waiting is not None
    assert extended is not None
    assert (waiting.data_per_day, waiting.data_per_day_high) == pytest.approx((0, MIB * 144))
    assert (extended.data_per_day, extended.data_per_day_high) == pytest.approx((MIB * 144, MIB * 144))
    assert growth_of(stored(created=MIB), stored(), counts(), replayed()) is None


def test_binary_logs_grow_until_the_first_is_removed() -> None:
    """600 MiB in ten minutes are 84 GiB a day: kept for a day they fit beside the data, for two they do not."""
    grown = 600 * MIB
    room = 90 * GIB
    assert full_after_s(room, 0.0, grown / 600, stored(days=1.0)) is None
    assert full_after_s(room, 0.0, grown / 600, stored(days=2.0)) == pytest.approx(room / (grown / 600))
    assert full_after_s(room, 0.0, grown / 600, stored(days=None)) == pytest.approx(room / (grown / 600))
    after = full_after_s(room, 1000.0, grown / 600, stored(days=1.0))
    assert after == pytest.approx((room - grown / 600 * DAY_S - GIB) / 1000)
    outlook, row = judged(stored(), later(binlog=grown, days=1.0), replayed(shape="select ?"))
    assert outlook is not None
    assert outlook.binlog_bytes == pytest.approx(grown * 144 + GIB)
    assert row.decision == "go"
    assert "kept 24 h" in "\n".join(row.details)
    never = judged(stored(), later(binlog=grown, days=None), replayed(shape="select ?"))[1]
    assert (never.decision, "never removed" in "\n".join(never.details)) == ("no-go", True)
    none = judged(stored(binlog=None), later(binlog=None), replayed(shape="select ?"))[1]
    assert "writes no binary log" in "\n".join(none.details)


def test_a_volume_that_is_too_small_is_full_now() -> None:
    outlook, row = judged(stored(), later(), replayed(), volume="ebs-gp3?size=1GiB", full="20%")
    assert outlook is not None
    assert (outlook.full_s, row.decision) == (0, "no-go")


def test_hours_of_a_day_and_a_replay_that_fell_behind() -> None:
    half, _ = judged(stored(), later(orders=160 * MIB), replayed(), busy="12h")
    behind, _ = judged(stored(), later(orders=130 * MIB), replayed(sent=3000))
    assert half is not None
    assert behind is not None
    assert half.data_per_day == pytest.approx(30 * MIB * 144)
    assert behind.data_per_day == pytest.approx(60 * MIB * 144)


def test_writes_that_were_not_seen_or_failed_are_never_a_go() -> None:
    unseen = replayed(left_out={"that do more than read": 7}, shape="select ?")
    row = judged(stored(), later(), unseen)[1]
    assert (row.decision, "7 statements that write were not replayed" in row.details[-1]) == ("undecided", True)
    assert judged(stored(), later(orders=160 * MIB), unseen)[1].decision == "no-go"
    failed = judged(stored(), later(), replayed(errors=60))[1]
    assert (failed.decision, "60 of 6000" in failed.details[-1]) == ("undecided", True)


def test_what_cannot_be_seen_or_was_too_short_is_undecided() -> None:
    few, row = judged(stored(), later(orders=160 * MIB), replayed(), measured=counts(15))
    assert (few, row.decision) == (None, "undecided")
    assert growth_of(None, later(), counts(), replayed()) is None
    assert growth_of(stored(binlog=5 * MIB), later(binlog=MIB), counts(), replayed()) is None


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "2592000", "expire_logs_days": "0"}, 2_592_000.0),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "10.000000"}, 864_000.0),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "0.000000"}, None),
        ({"binlog_expire_logs_seconds": "2592000", "binlog_expire_logs_auto_purge": "OFF"}, None),
        ({"expire_logs_days": "7"}, 604_800.0),
    ],
)
def test_how_long_binary_logs_are_kept_is_told_by_each_flavor(
    variables: dict[str, str], seconds: float | None
) -> None:
    assert kept_s(variables) == seconds


def test_a_plan_needs_a_replay_and_one_volume() -> None:
    head = "schema: 1\nsource: {host: a}\ncandidate: {host: b}\n"
    with pytest.raises(UsageError, match="measured while `replay`"):
        check_validation_plan(f"{head}growth: {{volume: ebs-gp2}}\n", name="plan.yaml")
    with pytest.raises(UsageError, match="one of them"):
        check_validation_plan(f"{head}replay: {{slow_log: a}}\ngrowth: {{lasts: 1d}}\n", name="plan.yaml")
    with pytest.raises(UsageError):
        volume_bytes(GrowthPlan(volume="ebs-gp9"))
    with pytest.raises(EnvironmentLacks):
        volume_bytes(GrowthPlan(data_dir="/nowhere/at/all"))
