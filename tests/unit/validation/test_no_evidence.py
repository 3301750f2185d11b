"""Nothing compared is never a go: every check, empty, failed on both sides, refused, cut off."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from answering_server import EMPTY, NO_COLUMNS, ONE_TABLE, Answers, a_capture, a_class, compared, rows_of

import volbench
from volbench.core.records.goals.capacity import CapacityPlan
from volbench.core.records.validation.plan import (
    BurstPlan,
    GrowthPlan,
    MovePlan,
    ReplayPlan,
    ReplicaPlan,
)
from volbench.core.records.validation.result import (
    BurstOutlook,
    CheckName,
    CheckRow,
    GrowthOutlook,
    MoveEstimate,
    ReplayClass,
    Replayed,
)
from volbench.errors import Refused
from volbench.validation.catalog.accounts import Logins, accounts_check
from volbench.validation.catalog.objects import Inventory
from volbench.validation.checks import checksums_check, definers_check, objects_check, query_checks
from volbench.validation.data.replicas import replica_check
from volbench.validation.decision import decide_all
from volbench.validation.forecast.burst import burst_check
from volbench.validation.forecast.burst_series import forecast_series
from volbench.validation.forecast.capacity import BusiestSecond, capacity_check
from volbench.validation.forecast.growth import growth_check
from volbench.validation.forecast.move import move_check
from volbench.validation.queries.pt_upgrade import row_of
from volbench.validation.replay.evaluation import replay_check
from volbench.validation.source.server import Rows
from volbench.validation.source.settings import settings_check
from volbench.validation.source.upgrade import upgrade_row
from volbench.validation.verdict import decide_check


def failing(source: str, candidate: str) -> dict[str, CheckRow]:
    return rows_of(list(query_checks(compared(Answers(source), Answers(candidate), a_class()))))


def replayed(**changed: object) -> Replayed:
    values = {
        "statements": 100,
        "sent": 100,
        "excluded": {},
        "log_s": 60.0,
        "speed": 1.0,
        "planned_s": 60.0,
        "duration_s": 60.0,
        "peak_per_s": 5,
        "connections": 1,
        "shared_connections": 0,
        "second_resolution": False,
        "writes": False,
        "late": 0,
        "late_share": 0.0,
        "client_cpu_share": 0.1,
        "errors": {},
        "classes": (),
    }
    return Replayed.model_validate(values | changed)


def failed_class(statements: int = 100) -> ReplayClass:
    return ReplayClass(
        fingerprint="select ?",
        statements=statements,
        errors=statements,
        logged_ms_p50=1.0,
        logged_ms_p95=1.0,
        service_ms_p50=None,
        service_ms_p95=None,
        response_ms_p50=None,
        response_ms_p95=None,
    )


def outlook(**changed: object) -> BurstOutlook:
    values = {
        "volume": "ebs-gp2",
        "counted_by": "a test",
        "iops": 0.0,
        "iops_low": 0.0,
        "iops_high": 0.0,
        "read_share": 0.0,
        "bucket": "volume.credits",
        "runway_s": None,
        "runway_s_low": None,
        "runway_s_high": None,
        "served_share": 1.0,
        "served_share_low": 1.0,
        "served_share_high": 1.0,
        "served_share_after": None,
    }
    return BurstOutlook.model_validate(values | changed)


def growth(size_bytes: int) -> CheckRow:
    grown = GrowthOutlook(
        size_bytes=size_bytes,
        used_bytes=0,
        data_per_day=0,
        data_per_day_low=0,
        data_per_day_high=0,
        binlog_bytes=0,
        full_s=None,
        full_s_low=None,
        full_s_high=None,
    )
    captures = [a_capture(f"2026-01-0{day}T00:00:00Z") for day in (1, 2, 3)]
    plan = GrowthPlan(volume="ebs-gp3?size=1GiB", captures=("a", "b", "c"))
    return growth_check(grown, captures, plan)


def move(source_bytes: int) -> CheckRow:
    estimate = MoveEstimate(
        tools="mysqldump and mysql",
        run_id="r",
        volume="v",
        cells=5,
        measured_bytes=1,
        source_bytes=source_bytes,
        dump_s=0,
        copy_s=0,
        restore_s=0,
        checks_s=0,
        total_s=0,
        total_s_low=0,
        total_s_high=0,
        dominated_by="the dump",
    )
    return move_check([estimate], MovePlan.model_validate({"window": "4h"}), {})


def quiet_series(tmp_path: Path) -> CheckRow:
    lines = ["t,reads_per_s,writes_per_s", *(f"{1.7e9 + 3600 * hour:.0f},0,0" for hour in range(24))]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    return forecast_series(BurstPlan(volume="ebs-gp2?size=50GiB", series=str(tmp_path / "s.csv")))[1]


REPLICA = ReplicaPlan(on="candidate")
REPLAY = ReplayPlan(slow_log="x", errors_max=0.9, ignore_errors=(1146,))
SAME = [("host", 3306, "/data")]


class Replica(Answers):
    """A replica without a row of checksums."""

    def query(self, sql: str) -> Rows:
        return [("Yes",)] if "STATUS" in sql else []


JSON_TABLE: Inventory = ONE_TABLE | {"column": {"shop.t.a": {"type": "json", "nullable": "NO", "charset": ""}}}
NO_LOGINS = Logins(accounts={}, plugins=frozenset({"caching_sha2_password"}))
BROKEN = Answers("1142 (42000): denied")
BURST = BurstPlan(volume="ebs-gp2?size=50GiB")
CAPACITY = CapacityPlan.model_validate({"limit": "20ms"})

NOTHING: dict[str, Callable[[Path], CheckRow]] = {
    "objects: neither side has one": lambda _: objects_check(EMPTY, EMPTY),
    "objects: no inventory": lambda _: objects_check({}, {}),
    "objects: not visible": lambda _: objects_check(ONE_TABLE, ONE_TABLE, ["reader has no TRIGGER on shop"]),
    "accounts: no account has access": lambda _: accounts_check(NO_LOGINS, NO_LOGINS, []),
    "accounts: those with access are gone": lambda _: accounts_check(NO_LOGINS, NO_LOGINS, ["'app'@'%'"]),
    "accounts: refused on the source": lambda _: accounts_check(None, NO_LOGINS, []),
    "accounts: refused on both": lambda _: accounts_check(None, None, []),
    "definers: no object": lambda _: definers_check(EMPTY, {"app@%"}),
    "definers: refused": lambda _: definers_check(ONE_TABLE, None),
    "definers: not visible": lambda _: definers_check(ONE_TABLE, set(), ["reader has no TRIGGER on shop"]),
    "checksums: no table": lambda _: checksums_check(BROKEN, BROKEN, EMPTY, EMPTY, lambda *_: None),
    "checksums: no row": lambda _: checksums_check(
        Answers([(0, 0)]), Answers([(0, 0)]), ONE_TABLE, ONE_TABLE, lambda *_: None
    ),
    "checksums: no column in common": lambda _: checksums_check(
        Answers([(5, 0)]), Answers([(5, 0)]), ONE_TABLE, JSON_TABLE, lambda *_: None
    ),
    "queries: no class": lambda _: rows_of(list(query_checks([])))["queries"],
    "queries: all fail on both": lambda _: failing(NO_COLUMNS, NO_COLUMNS)["queries"],
    "queries: no schema on both": lambda _: failing("1049 (42000): x", "1049 (42000): x")["queries"],
    "queries: no privilege on both": lambda _: failing("1142 (42000): x", "1142 (42000): x")["queries"],
    "queries: no privilege on one": lambda _: failing(NO_COLUMNS, "1142 (42000): x")["queries"],
    "queries: cut off on both": lambda _: failing("3024 (HY000): x", "1969 (70100): x")["queries"],
    "queries: lost": lambda _: failing("2013: Lost connection", "2013: Lost connection")["queries"],
    "queries: refused by the guard": lambda _: rows_of(
        list(query_checks(compared(Answers(Refused("no")), Answers(Refused("no")), a_class())))
    )["queries"],
    "queries: no row on both": lambda _: rows_of(list(query_checks(compared(Answers([]), Answers([]), a_class()))))[
        "queries"
    ],
    "times: no class": lambda _: rows_of(list(query_checks([])))["times"],
    "times: all fail": lambda _: failing(NO_COLUMNS, NO_COLUMNS)["times"],
    "plans: no class": lambda _: rows_of(list(query_checks([])))["plans"],
    "plans: all fail": lambda _: failing(NO_COLUMNS, NO_COLUMNS)["plans"],
    "settings: none shown": lambda _: settings_check({}, {}, None, ()),
    "settings: none in common": lambda _: settings_check({"sql_mode": ""}, {"log_bin": "ON"}, None, ()),
    "replica: no table": lambda _: replica_check(Replica([]), REPLICA, ["shop"], ()),
    "replica: no checksum": lambda _: replica_check(Replica([]), REPLICA, ["shop"], ("shop.t",)),
    "replica: refused": lambda _: replica_check(BROKEN, REPLICA, ["shop"], ("shop.t",)),
    "upgrade: no check": lambda _: upgrade_row({"checksPerformed": []}),
    "upgrade: all skipped": lambda _: upgrade_row(
        {"checksPerformed": [{"id": "sysVars", "status": "CONFIGURATION_ERROR"}]}
    ),
    "upgrade: ended badly": lambda _: upgrade_row({"checksPerformed": [{"id": "x"}]}, 1),
    "pt_upgrade: no query": lambda _: row_of("", 0, []),
    "replay: nothing judged": lambda _: replay_check(replayed(), REPLAY),
    "replay: all fail, errors ignored": lambda _: replay_check(
        replayed(errors={"1146 no such table": 100}, classes=(failed_class(),)), REPLAY
    ),
    "replay: all fail, errors allowed": lambda _: replay_check(
        replayed(errors={"1142 denied": 85}, classes=(failed_class(85),)), REPLAY
    ),
    "capacity: no run": lambda _: capacity_check((), CAPACITY, BusiestSecond(), confidence=0.95),
    "move: no run": lambda _: move_check([], MovePlan.model_validate({"window": "4h"}), {}),
    "move: no data": lambda _: move(0),
    "burst: too short": lambda _: burst_check(None, replayed(), BURST),
    "burst: no I/O": lambda _: burst_check(outlook(), replayed(), BURST),
    "burst: all fail": lambda _: burst_check(
        outlook(iops=1, iops_high=1), replayed(errors={"1146 no such table": 100}), BURST
    ),
    "burst: a series without a request": quiet_series,
    "growth: size unknown": lambda _: growth(0),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_compared_is_never_a_go(tmp_path: Path, name: str) -> None:
    row = NOTHING[name](tmp_path)
    assert row.check == name.partition(":")[0]
    assert row.decision == "undecided", row
    assert "all equal" not in row.text
    assert decide_all([row], (), (), source_changed=False)[0] == "undecided"


def test_every_check_is_in_the_table() -> None:
    assert {name.partition(":")[0] for name in NOTHING} == set(get_args(CheckName))


def test_no_check_at_all_is_never_a_go() -> None:
    assert decide_all((), (), (), source_changed=False) == ("undecided", "nothing was checked")


def test_every_row_is_decided_by_the_one_rule() -> None:
    """A check that makes its own row, or changes a row's decision, could make a go of nothing."""
    package = Path(volbench.__file__).parent / "validation"
    made = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        if path.name != "verdict.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "CheckRow")
        or (
            isinstance(node, ast.Dict)
            and any(isinstance(k, ast.Constant) and k.value == "decision" for k in node.keys)
        )
    ]
    assert made == []


@pytest.mark.parametrize("count", [0, -1])
def test_a_fault_counts_even_where_nothing_else_was_compared(count: int) -> None:
    assert decide_check("queries", compared=count, text="x", faults=["y"]).decision == "no-go"
