"""The list of counters that one statement asks the server for, against the metrics that need them."""

from __future__ import annotations

from sampled_rates import rates

from volbench.core.records.sources import SOURCES
from volbench.measure.sample.interface import Values
from volbench.measure.sample.parsers.innodb import COUNTERS, GAUGES
from volbench.measure.sample.server.innodb import InnoDb

OF_MARIADB = {"innodb_checkpoint_age", "innodb_checkpoint_max_age"}
"""MariaDB has these in place of MySQL's two positions."""
OF_SESSIONS = {"lock_current_waits", "metadata_lock_current_waits"}
"""Counted in the list of sessions."""


def test_every_metric_has_a_counter_that_the_server_is_asked_for() -> None:
    """A metric whose counter no statement asks for is missing in each run, and nothing says so."""
    names = {name.lower() for name in COUNTERS + GAUGES} - OF_MARIADB
    first: Values = {(name, ""): 1000.0 for name in names} | {("innodb_redo_log_current_lsn", ""): 5000.0}
    second: Values = {key: 2 * value for key, value in first.items()}
    for values in (first, second):
        values["connection", ""] = 1
    metrics = {name for name, _ in rates(InnoDb, first, second, dt_s=1.0)}
    assert SOURCES["innodb"].metrics.keys() - metrics <= OF_SESSIONS
