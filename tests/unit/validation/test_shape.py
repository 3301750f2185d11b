"""The mix that stands for a workload has its shares and its rate, and says what it has not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from slow_log_writer import Shop, slow_log
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import UsageError
from volbench.suite.load import check_suite
from volbench.validation.shape import OPTIONS, Kind, Shape, kind_of, mix_of, shape_of_log, suite_text
from volbench.validation.slowlog import read_slow_log


def shape(counts: dict[Kind, int], *, seconds: float = 60.0, transactions: int = 0) -> Shape:
    return Shape(
        statements=counts, other={}, inserts=0, deletes=0, transactions=transactions, seconds=seconds,
        range_rows=100.0, threads=None,
    )  # fmt: skip


@given(some.dictionaries(some.sampled_from(sorted(OPTIONS)), some.integers(1, 10**6), min_size=1))
def test_every_share_and_the_rate_are_kept(counts: dict[Kind, int]) -> None:
    """To two percent of all statements at worst, whatever the shares are, at rates that leave room."""
    found = shape(counts, seconds=sum(counts.values()) / 5000)
    mix = mix_of(found)
    sent = {kind: int(mix.options[name]) * each for kind, (name, each) in OPTIONS.items()}
    assert sum(sent.values()) == mix.per_transaction
    for kind, share in found.shares().items():
        assert abs(sent[kind] / mix.per_transaction - share) <= 0.02 + 1e-9
    assert mix.rate * mix.per_transaction == pytest.approx(5000, rel=0.02)
    check_suite(suite_text(found, mix, origin="log"), name="made")


@pytest.mark.parametrize(
    ("bare", "rows", "kind"),
    [
        ("select `c` from `sbtest1` where `id` = ?", 1, "point select"),
        ("select count(*) from t", 1, "point select"),
        ("select `c` from `sbtest1` where `id` between ? and ?", 100, "simple range"),
        ("select sum(`k`) from `sbtest1` where `id` between ? and ?", 100, "sum range"),
        ("select `c` from t where `id` between ? and ? order by `c`", 100, "order range"),
        ("select distinct `c` from t where `id` between ? and ? order by `c`", 100, "distinct range"),
        ("update `t` set `k` = ?", 1, "update"),
        ("replace into t values (?)", 0, "insert and delete"),
        ("delete from t", 0, "insert and delete"),
        ("select ?", 1, None),
        ("commit", 0, None),
    ],
)
def test_statements_are_told_apart_by_shape_and_rows(bare: str, rows: float, kind: Kind | None) -> None:
    assert kind_of(bare, rows) == kind


def test_a_slow_log_becomes_a_suite_that_is_valid_and_says_what_is_lost(tmp_path: Path) -> None:
    log, out = tmp_path / "slow.log", tmp_path / "shape.yaml"
    log.write_text("".join(slow_log(Shop(statements=5000, per_s=500))))
    ended = CliRunner().invoke(app, ["capture", str(out), "--from", str(log), "--as-suite"])
    assert ended.exit_code == 0, ended.output
    text = out.read_text()
    (step,) = check_suite(text, name="made").steps
    assert step.options["skip_trx"] == "on"
    assert "Not kept: which rows are asked for" in text
    assert "customers" not in text
    with log.open() as lines:
        found = shape_of_log(read_slow_log(lines, name="log"))
    mix = mix_of(found)
    assert mix.rate * mix.per_transaction == pytest.approx(found.per_s, rel=0.05)
    again = CliRunner().invoke(app, ["capture", str(out), "--from", str(log), "--as-suite"])
    assert again.exit_code != 0


def test_too_few_statements_are_no_workload() -> None:
    with pytest.raises(UsageError, match="less than one statement a second"):
        mix_of(shape({"update": 3}))
