"""The sessions of a load that was ended: waited for until the server has rolled them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from step_context import context_on

from volbench.core.records.cell import Failure
from volbench.errors import StepFailed
from volbench.measure.workload import failures
from volbench.measure.workload.oltp.sessions import LoadSessions


class Sessions:
    """A server that has so many sessions left, at one question after the other."""

    def __init__(self, *left: int) -> None:
        self.left = list(left)
        self.asked: list[str] = []

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        self.asked.append(sql)
        if "COUNT" not in sql:
            return [(41,)]
        return [(self.left.pop(0) if len(self.left) > 1 else self.left[0],)]

    def failure(self, _where: str = "", *, error: str = "") -> Failure | None:  # noqa: ARG002
        return None


def sessions(server: Sessions, directory: Path, *, cancelled: bool = False) -> LoadSessions:
    context, _ = context_on(directory)
    if cancelled:
        context.cancelled.set()
    return LoadSessions(replace(context, server=cast("Any", server)))


def test_sessions_above_the_last_id_before_the_load_are_waited_for(tmp_path: Path) -> None:
    server = Sessions(8, 2, 0)
    sessions(server, tmp_path).wait_closed(where="step read-write")
    assert len(server.asked) == 4
    assert "id > 41" in server.asked[-1]


def test_sessions_that_stay_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_SERVER_DOWN_TIMEOUT_S", 0.0)
    with pytest.raises(StepFailed, match="does not end the sessions") as raised:
        sessions(Sessions(1), tmp_path).wait_closed(where="step read-write", timeout_s=0)
    assert (raised.value.where, raised.value.evidence) == ("step read-write", "1 session left after 0 s")


def test_a_step_that_is_cancelled_meanwhile_says_so(tmp_path: Path) -> None:
    """It used to accuse the server, with the whole time-out as its evidence."""
    with pytest.raises(StepFailed, match="the step was cancelled") as raised:
        sessions(Sessions(1), tmp_path, cancelled=True).wait_closed(where="step read-write")
    assert (raised.value.where, raised.value.evidence) == ("step read-write", "")
