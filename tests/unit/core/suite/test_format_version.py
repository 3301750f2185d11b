"""YAML files of another format version end with one message, not with a fault for each key that was renamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from volbench.core.suite.load import check_suite
from volbench.core.suite.policy import check_policy
from volbench.core.suite.validation import check_validation_plan
from volbench.errors import UsageError

SUITE = "schema: {}\nname: old\nlow_power: true\nsteps:\n  - {{kind: crash, how: kill_server}}\n"
POLICY = "schema: {}\nconditions:\n  - {{check: latency_ms_p95 <= 20, why: promised}}\n"
PLAN = "schema: {}\nsource: {{host: a}}\ncandidate: {{host: b}}\nburst: {{lasts: 12h}}\n"
READERS: dict[str, tuple[Callable[..., Any], str]] = {
    "suite": (check_suite, SUITE),
    "policy": (check_policy, POLICY),
    "plan": (check_validation_plan, PLAN),
}


@pytest.mark.parametrize("noun", READERS)
def test_a_superseded_file_is_named_as_that_with_what_to_write(noun: str) -> None:
    read, text = READERS[noun]
    with pytest.raises(UsageError) as raised:
        read(text.format(1), name="old.yaml")
    assert raised.value.what.startswith("schema 1 is a superseded format")
    assert raised.value.where == "old.yaml:1"
    assert "write `schema: 2`" in str(raised.value.next_step)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("noun", READERS)
@pytest.mark.parametrize("version", ["3", "'2'", "true", "[]", "0"])
def test_a_version_that_nobody_wrote_yet_is_no_older_one(noun: str, version: str) -> None:
    read, text = READERS[noun]
    with pytest.raises(UsageError, match=r"cannot be read by this volbench, which reads schema 2"):
        read(text.format(version), name="new.yaml")


def test_a_suite_without_a_version_is_todays_and_its_older_keys_are_unknown() -> None:
    with pytest.raises(UsageError, match=r"steps\.0\.how: unknown key"):
        check_suite(SUITE.partition("\n")[2].format(), name="s.yaml")
