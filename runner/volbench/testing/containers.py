"""Containers of tests, by testcontainers: readiness is a query that is answered, and cleanup outlives a kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import mysql.connector
from testcontainers.core.config import testcontainers_config
from testcontainers.core.wait_strategies import WaitStrategy
from testcontainers.core.waiting_utils import WaitStrategyTarget

from volbench.machine.engine.connection import Account, rows
from volbench.machine.placement import capabilities
from volbench.testing.leftovers import LABEL_OWNER, owner_label

START_S_MAX = 180.0
_POLL_S = 0.1
_PULL_S_MAX = 60.0
_RYUK_CHOICE = "TESTCONTAINERS_RYUK_DISABLED"


class QueryWaitStrategy(WaitStrategy):
    """Ready when the server answers a query. Raises TimeoutError, at once when the container has ended.

    Args:
        account: of the started container, whose TCP port is known only then.
        timeout_s: for the answer.
    """

    def __init__(self, account: Callable[[WaitStrategyTarget], Account], *, timeout_s: float = START_S_MAX) -> None:
        super().__init__()
        self._account = account
        self.with_startup_timeout(round(timeout_s)).with_poll_interval(_POLL_S)
        self.with_transient_exceptions(mysql.connector.Error, ConnectionError)  # no port yet, or no more

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:
        """Query until the server answers."""
        if not self._poll(lambda: self._answers(container)):
            container.reload()
            raise TimeoutError(f"no answer to a query; the container is {container.status}")

    def _answers(self, container: WaitStrategyTarget) -> bool:
        container.reload()
        if container.status not in {"created", "running"}:
            raise StopIteration  # which _poll takes for a final no
        return rows(self._account(container), "SELECT 1", timeout_s=5) == [(1,)]


def owner_labels() -> dict[str, dict[str, str]]:
    """Return options of docker-py by which the next session finds the containers of a killed one."""
    return {"labels": {LABEL_OWNER: owner_label()}}


@cache
def choose_cleanup() -> None:
    """Use Ryuk, which also cleans up after a killed session, where its image is here or can be pulled.

    Elsewhere testcontainers could start nothing; then the owner's label is what cleans up.
    """
    if _RYUK_CHOICE in os.environ:
        return
    image = testcontainers_config.ryuk_image
    present = capabilities.docker_image(image).present
    testcontainers_config.ryuk_disabled = not (
        present or capabilities.ask(["docker", "pull", "-q", image], timeout_s=_PULL_S_MAX).code == 0
    )


def container_options(**options: Any) -> dict[str, Any]:
    """Return options of docker-py's `containers.create` with this session's label; choose the cleanup."""
    choose_cleanup()
    return {**owner_labels(), **options}
