"""What a sweep may vary: keys and values are checked against the suite before anything runs."""

from __future__ import annotations

import pytest

from volbench.core.suite.load import check_suite
from volbench.core.suite.sweep import with_parameters
from volbench.errors import UsageError

SUITE = """
schema: 2
name: s
engine:
  config: {innodb_buffer_pool_size: 1G}
steps:
  - {kind: oltp, name: rw, threads: [2, 4], duration: 3s, options: {skip_trx: true}}
  - {kind: cold_read}
sweep:
  factors:
    FACTORS
"""


def suite(factor: str) -> str:
    return SUITE.replace("FACTORS", factor)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ("volum.iops: {base: 1, levels: 2}", "perhaps you meant 'volume'"),
        ("steps.cold_reads.threads: {base: 1, levels: 2}", "perhaps you meant 'cold_read'"),
        ("steps.rw.thread: {base: 1, levels: 2}", "there is no 'thread'; perhaps you meant 'threads'"),
        ("steps.rw.duration: {base: 1s, levels: soon}", "'soon' is not a duration"),
        ("dataset.rows: {base: 10, levels: 0}", "0 does not fit"),
        ("steps.rw.kind: {base: oltp, levels: idle}", "there is no 'kind'"),
        ("dataset.rows: {base: 10, levels: [20, 10]}", "occurs twice"),
        ("volume: {base: 1, levels: 2}", "unknown key 'volume'"),
        ("engine.encryption: {base: none, levels: some}", "'some' does not fit"),
        ("dataset.rows: {base: 10, level: 20}", "perhaps you meant 'levels'"),
        ("dataset.rows: {base: 10, levels: []}", "at least 1"),
    ],
)
def test_a_key_or_value_that_does_not_fit_is_an_error_with_its_line(factor: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        check_suite(suite(factor), name="s.yaml")
    assert message in error.value.evidence
    assert "s.yaml:11" in error.value.where


def test_a_password_in_a_level_is_not_repeated() -> None:
    with pytest.raises(UsageError) as error:
        check_suite(suite('dataset.server: {base: "", levels: "mysql://u:geheim@db/s"}'), name="s.yaml")
    assert "geheim" not in str(error.value)


def test_values_are_put_into_server_steps_and_dataset_and_those_of_the_volume_are_not() -> None:
    resolved = check_suite(suite("volume.iops: {base: 1, levels: 2}"), name="s").resolved()
    changed = with_parameters(
        resolved,
        {
            "volume.iops": 2,
            "engine.config.sync_binlog": 0,
            "engine.encryption": "all",
            "steps.rw.duration": "9s",
            "steps.rw.options.skip_trx": False,
            "dataset.rows": 7,
        },
    )
    assert changed.server.config["sync_binlog"] == 0
    assert (resolved.server.encryption, changed.server.encryption) == ("none", "all")
    assert changed.server.config["innodb_buffer_pool_size"] == "1G"
    assert [step.model_dump().get("duration_s") for step in changed.steps] == [9, 9, None]
    assert changed.steps[0].model_dump()["options"] == {"skip_trx": False}
    assert changed.dataset.rows == 7
    assert with_parameters(resolved, {"volume.iops": 2}) is resolved
