"""When a volume is full, by the source's own growth between captures of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.capture import Capture
from volbench.core.records.validation.plan import GrowthPlan
from volbench.core.records.validation.result import CheckRow, GrowthOutlook
from volbench.core.suite.validation import check_validation_plan
from volbench.errors import MissingPrerequisite, UsageError
from volbench.validation.forecast.growth import forecast_growth, volume_bytes

GIB = 2**30


def captures(directory: Path, sizes: list[float], *, binlog: int | None = 10 * GIB) -> tuple[str, ...]:
    """One a day, with a table of so many GiB; another that shrank."""
    names = []
    for day, gib in enumerate(sizes):
        capture = Capture(
            flavor="mysql",
            version="8.4.0",
            started_at=f"2026-11-{1 + day:02}T12:00:00Z",
            seconds=60,
            statements_per_s=1,
            threads_running_max=1,
            unclassified=0,
            masked=True,
            classes=(),
            files={"shop/orders": round(gib * GIB), "shop/old": GIB},
            binlog_bytes=binlog,
        )
        (directory / f"{day}.json").write_text(capture.model_dump_json(by_alias=True))
        names.append(str(directory / f"{day}.json"))
    return tuple(names)


def judged(names: tuple[str, ...], **plan: Any) -> tuple[GrowthOutlook, CheckRow]:
    return forecast_growth(
        GrowthPlan.model_validate(
            {"volume": "ebs-gp3?size=200GiB", "captures": names, "full": "100%", "horizon": "30d", **plan}
        )
    )


@pytest.mark.parametrize(("horizon", "decision"), [("60d", "go"), ("87d", "undecided"), ("150d", "no-go")])
def test_days_of_growth_give_an_interval_that_decides(tmp_path: Path, horizon: str, decision: Decision) -> None:
    """200 GiB hold 19.1 GiB of data and 10 GiB of binary logs; the rest is filled by about 2 GiB a day."""
    outlook, row = judged(captures(tmp_path, [10, 12.1, 14.0, 15.9, 18.1]), horizon=horizon)
    assert outlook.data_per_day == pytest.approx(8.1 / 4 * GIB)
    assert outlook.data_per_day_low < 1.9 * GIB
    assert 2.1 * GIB < outlook.data_per_day_high < 2.4 * GIB
    assert outlook.full_s == pytest.approx((200 - 29.1) / (8.1 / 4) * 86_400)
    assert row.decision == decision, row


def test_two_captures_tell_but_do_not_decide(tmp_path: Path) -> None:
    outlook, row = judged(captures(tmp_path, [10, 12]))
    assert outlook.data_per_day == pytest.approx(2 * GIB)
    assert (row.decision, "take 3 or more" in "\n".join(row.details)) == ("undecided", True)


def test_binary_logs_that_could_not_be_seen_are_never_a_go(tmp_path: Path) -> None:
    assert judged(captures(tmp_path, [10, 11, 12], binlog=10 * GIB))[1].decision == "go"
    assert judged(captures(tmp_path, [10, 11, 12], binlog=None))[1].decision == "undecided"


def test_a_source_that_shrinks_is_never_full(tmp_path: Path) -> None:
    outlook, row = judged(captures(tmp_path, [12, 11.5, 11]))
    assert (outlook.full_s, row.decision) == (None, "go")


def test_captures_without_sizes_or_of_one_time_are_refused(tmp_path: Path) -> None:
    first, second = captures(tmp_path, [10, 12])
    with pytest.raises(UsageError, match="at the same time"):
        judged((first, first))
    (tmp_path / "1.json").write_text((tmp_path / "1.json").read_text().replace('"files":{', '"files":null,"x":{'))
    with pytest.raises(UsageError):
        judged((first, second))
    head = "schema: 2\nsource: {host: a}\ncandidate: {host: b}\n"
    for written in ("volume: ebs-gp3, captures: [a]", "volume: ebs-gp3"):
        with pytest.raises(UsageError, match="give two or more"):
            check_validation_plan(f"{head}growth: {{{written}}}\n", name="plan.yaml")


def test_a_plan_names_one_volume_that_exists() -> None:
    head = "schema: 2\nsource: {host: a}\ncandidate: {host: b}\n"
    with pytest.raises(UsageError, match="one of them"):
        check_validation_plan(f"{head}growth: {{horizon: 1d, captures: [a, b]}}\n", name="plan.yaml")
    with pytest.raises(UsageError):
        volume_bytes(GrowthPlan(volume="ebs-gp9", captures=("a", "b")))
    with pytest.raises(MissingPrerequisite):
        volume_bytes(GrowthPlan(data_dir="/nowhere/at/all", captures=("a", "b")))
