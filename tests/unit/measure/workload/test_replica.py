"""The replica step without servers: GTIDs, recorded states of real replicas, lags, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from step_context import context_on

from volbench.core.records.cell import CellPlaces
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.steps.replica import ReplicaStep
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.server import Server
from volbench.measure.workload.interface import Clock
from volbench.measure.workload.replica.dialect import (
    change_source,
    connection_error,
    dialect_of,
    replica_status,
    transactions,
)
from volbench.measure.workload.replica.heartbeat import Beats
from volbench.measure.workload.replica.load import oltp_step, shortfall
from volbench.measure.workload.replica.series import lag_rows
from volbench.measure.workload.replica.source import shares_a_disk
from volbench.measure.workload.replica.step import Replica, catch_up_notes, lag_metrics, left_notes, load_notes
from volbench.measure.workload.schema_data import TableSum, differences

RECORDED = Path(__file__).parent / "recorded"
UUID = "c2ce2f78-e68a-11f1-80d5-8f386e803588"
LAGS = ("lag_ms_p50", "lag_ms_max")
SERVERS = ("mysql-9.7", "mariadb-10.11")


def recorded(state: str, server: str) -> dict[str, Any]:
    """A row of SHOW REPLICA STATUS or SHOW SLAVE STATUS of a real server, made by a run of this step."""
    row: dict[str, Any] = json.loads((RECORDED / f"replica-{state}-{server}.json").read_text())
    return row


@pytest.mark.parametrize(
    ("gtids", "expected"),
    [
        ("", 0),
        (f"{UUID}:1-448", 448),
        (f"{UUID}:1", 1),
        (f"{UUID}:1-5:7-9:11", 9),
        (f"{UUID}:1-5,\n00000000-0000-0000-0000-000000000001:1-2", 7),
        (f"{UUID}:1-5:tag:1-3", 8),
        ("0-2-884", 884),
        ("0-2-7,1-3-5", 12),
    ],
)
def test_transactions_of_gtids_are_counted(gtids: str, expected: int) -> None:
    assert transactions(gtids) == expected


def test_gtids_of_real_servers_are_counted() -> None:
    """What a server had executed when it stopped: Executed_Gtid_Set of MySQL, Gtid_IO_Pos of MariaDB."""
    assert transactions(recorded("stopped", "mysql-9.7")["Executed_Gtid_Set"]) == 448
    assert transactions(recorded("stopped", "mariadb-10.11")["Gtid_IO_Pos"]) == 884


@pytest.mark.parametrize("server", SERVERS)
def test_a_replica_that_runs_has_no_failure(server: str) -> None:
    status = replica_status(recorded("running", server))
    assert status.applies
    assert status.failure == ""


@pytest.mark.parametrize("server", SERVERS)
def test_a_replica_that_stopped_names_its_error(server: str) -> None:
    """A row with the key of an event was there already: 1062, in the server's own words."""
    status = replica_status(recorded("stopped", server))
    assert not status.applies
    assert status.failure.startswith("error 1062: ")


@pytest.mark.parametrize("server", SERVERS)
def test_a_connection_that_is_tried_again_is_no_failure_yet(server: str) -> None:
    """A receiver says Connecting, and tries again by itself; No means that it gave up."""
    row = recorded("running", server)
    name = next(name for name in row if name.endswith("_IO_Running"))
    row |= {"Last_IO_Errno": 2003, "Last_IO_Error": "error connecting", name: "Connecting"}
    assert replica_status(row).failure == ""
    assert connection_error(row) == "error 2003: error connecting"
    assert replica_status(row | {name: "No"}).failure == "error 2003: error connecting"


def test_each_server_is_spoken_to_in_its_own_words() -> None:
    """MySQL 8.4 refuses the old words, MariaDB does not know the new ones."""
    old, new = (ServerIdentity(flavor="mysql", version=version) for version in ("8.0.36", "9.7.4"))
    mariadb = ServerIdentity(flavor="mariadb", version="10.11.6-MariaDB")
    assert dialect_of(old).reset_binlog == ("RESET MASTER",)
    assert dialect_of(old).source_options["binlog_transaction_dependency_tracking"] == "WRITESET"
    assert dialect_of(new).reset_binlog == ("RESET BINARY LOGS AND GTIDS",)
    assert "binlog_transaction_dependency_tracking" not in dialect_of(new).source_options
    assert dialect_of(mariadb).status == "SHOW SLAVE STATUS"
    assert not dialect_of(mariadb).options
    statements = {flavor: change_source(flavor, port=4, user="u", password="p") for flavor in ("mysql", "mariadb")}
    assert statements["mysql"].startswith("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=4,")
    assert "MASTER_USE_GTID=slave_pos" in statements["mariadb"]


def test_a_lag_is_from_the_commit_to_the_answer_of_the_replica() -> None:
    """Only of beats that were committed in the window; a beat shown before the source's answer has none."""
    beats = Beats(committed_s=np.array([1.0, 2.0, 3.0, 4.0, 9.0]), visible_s=np.array([1.5, 2.005, 2.999, 5.0]))
    assert beats.lags_ms(2.0, 4.5) == pytest.approx([5.0, 0.0, 1000.0])
    assert beats.unseen(2.0, 4.5) == 0


def test_a_beat_that_the_replica_never_showed_is_the_slowest() -> None:
    beats = Beats(committed_s=np.array([1.0, 2.0, 3.0]), visible_s=np.array([1.5]))
    assert beats.lags_ms(0.0, 2.5) == pytest.approx([500.0, np.inf])
    assert beats.unseen(0.0, 2.5) == 1
    assert beats.unseen(0.0, 1.5) == 0


def test_a_replica_that_does_not_keep_up_says_what_its_lags_are() -> None:
    assert load_notes(0.9, None, 0, 100, oldest_s=0.0) == ()
    assert len(load_notes(1.2, None, 0, 100, oldest_s=0.0)) == 1
    (stalled,) = load_notes(0.8, 60.0, 0, 100, oldest_s=0.0)
    assert "in 60 s more under load" in stalled
    lagged, behind, unseen = load_notes(80.0, 60.0, 60, 100, oldest_s=700.0)
    assert "lagged by 80.0 s" in lagged
    assert "did not keep up" in behind
    assert "60 of 100 heartbeats, the oldest 700 s old" in unseen
    assert left_notes(0, 600.0) == ()
    assert "1234 transactions were not applied 600 s after" in left_notes(1234, 600.0)[0]


def test_a_beat_that_the_replica_shows_before_the_source_has_answered_is_counted_later() -> None:
    beats = Beats(committed_s=np.array([1.0]), visible_s=np.array([1.25, 1.3]))
    assert beats.lags_ms(0.0, 2.0) == pytest.approx([250.0])


def test_lags_give_quantiles_and_none_gives_nothing() -> None:
    values = {name: value.value for name, value in lag_metrics(np.arange(101.0)).items()}
    assert values == {"lag_ms_p50": 50.0, "lag_ms_p95": 95.0, "lag_ms_max": 100.0}
    assert lag_metrics(np.array([])) == {}


@pytest.mark.parametrize(
    ("unseen", "known_values"), [(5, {"lag_ms_p50"}), (1, {"lag_ms_p50", "lag_ms_p95"}), (60, set())]
)
def test_a_percentile_among_beats_that_were_never_shown_is_missing(unseen: int, known_values: set[str]) -> None:
    lags_ms = np.concatenate([np.full(100 - unseen, 20.0), np.full(unseen, np.inf)])
    assert lag_metrics(lags_ms).keys() == known_values


def by_second(committed_s: Any, visible_s: Any) -> dict[str, dict[float, float]]:
    """The rows of beats by metric, then by the end of their second; the cell began at 0."""
    beats = Beats(committed_s=np.array(committed_s, dtype=float), visible_s=np.array(visible_s, dtype=float))
    rows = list(lag_rows(beats, Clock(zero_monotonic_ns=0)))
    return {metric: {row.t_s: row.value for row in rows if row.metric == metric} for metric in LAGS}


def test_a_steady_lag_is_the_same_in_each_second() -> None:
    committed_s = 100.05 + 0.1 * np.arange(50)
    rows = by_second(committed_s, committed_s + 0.02)
    assert list(rows["lag_ms_p50"]) == list(rows["lag_ms_max"]) == pytest.approx([101.05, 102.05, 103.05, 104.05])
    assert list(rows["lag_ms_p50"].values()) == pytest.approx([20.0] * 4)
    assert list(rows["lag_ms_max"].values()) == pytest.approx([20.0] * 4)


def test_the_lag_of_a_stopped_replica_rises_until_it_has_caught_up() -> None:
    """Stopped from 2 to 5 s: no beat is shown and none has a median, and the oldest one's age is the lag."""
    committed_s = 0.1 * np.arange(80)
    visible_s = committed_s + np.where((committed_s > 1.95) & (committed_s < 5.0), 5.25 - committed_s, 0.01)
    rows = by_second(committed_s, visible_s)
    assert sorted(rows["lag_ms_p50"]) == pytest.approx([1, 2, 6, 7])
    assert rows["lag_ms_p50"][6.0] > 1000
    assert [round(rows["lag_ms_max"][t_s]) for t_s in (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)] == [
        10,
        1000,
        2000,
        3000,
        3250,
        10,
    ]


def test_a_replica_that_stops_for_good_has_a_lag_to_the_last_commit() -> None:
    rows = by_second(np.arange(0.0, 5.0, 0.1), [0.01, 0.11])
    assert list(rows["lag_ms_max"].values()) == pytest.approx([800, 1800, 2800, 3800])
    assert list(rows["lag_ms_p50"]) == [1.0]


def test_beats_that_say_nothing_have_no_rows() -> None:
    """None at all, one, and a second of a source that committed nothing while all before was shown."""
    assert by_second([], []) == by_second([1.0], [1.01]) == {metric: {} for metric in LAGS}
    rows = by_second([0.0, 0.5, 3.5, 4.5], [0.1, 0.6, 3.6, 4.6, 4.7])
    assert list(rows["lag_ms_max"]) == [1.0, 4.0]


@pytest.mark.parametrize("seed", range(20))
def test_the_highest_lag_is_what_a_fine_clock_sees(seed: int) -> None:
    """The definition, asked every millisecond: the age of the oldest beat that is not shown."""
    random = np.random.default_rng(seed)
    committed_s = np.cumsum(random.choice([0.1, 0.11, 0.4, 2.5], 40))
    visible_s = np.maximum.accumulate(committed_s + random.exponential(random.choice([0.01, 0.3, 2.0]), 40))
    visible_s = visible_s[: random.integers(1, 41)]
    for end_s, highest_ms in by_second(committed_s, visible_s)["lag_ms_max"].items():
        now_s = np.arange(end_s - 1, end_s, 0.001)
        pending = np.searchsorted(visible_s, now_s, side="right")
        oldest_s = np.append(committed_s, np.inf)[pending]
        ages_ms = 1e3 * np.maximum(now_s - oldest_s, 0.0)
        assert highest_ms == pytest.approx(ages_ms.max(), abs=1.1)


def test_a_source_below_its_rate_makes_the_step_invalid() -> None:
    """Beyond what Poisson arrivals do by chance: 100 in 2 s vary, 60,000 do not."""
    assert shortfall(95 * 600, 100 * 600) == ()
    assert shortfall(80, 100) == ()
    (reason,) = shortfall(80 * 600, 100 * 600)
    assert reason == "the source was the limit: it committed 80 % of the rate (limit 95 %)"


def test_a_catch_up_that_says_little_is_noted() -> None:
    assert catch_up_notes(caught_up=True, seconds=20.0, lag_s=0.5) == ()
    assert "longer pause" in catch_up_notes(caught_up=True, seconds=0.04, lag_s=0.0)[0]
    assert (
        "did not catch up within 600 s: its lag was 700.0 s"
        in catch_up_notes(caught_up=False, seconds=600.0, lag_s=700.0)[0]
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"disk": "nvme0n1", "device_number": "259:1"}, {"disk": "nvme0n1", "device_number": "259:2"}, True),
        ({"disk": "nvme0n1", "device_number": "259:1"}, {"disk": "nvme1n1", "device_number": "259:9"}, False),
        ({"device_number": "0:50"}, {"device_number": "0:50"}, True),
        ({"memory_backed": True, "device_number": "0:9"}, {"memory_backed": True, "device_number": "0:9"}, False),
        ({}, {}, False),
    ],
)
def test_a_source_on_the_volumes_disk_is_seen(
    first: dict[str, Any], second: dict[str, Any], expected: bool
) -> None:
    facts = [VolumeFacts(path="/x", **fields) for fields in (first, second)]
    assert shares_a_disk(*facts) is expected


def test_a_server_without_room_for_a_second_one_is_refused(tmp_path: Path) -> None:
    """As one is that several cells share."""
    server = object.__new__(Server)
    places = dict.fromkeys(("data_dir", "volume_dir", "control_dir", "template_dir", "scratch_dir"), str(tmp_path))
    server.paths = CellPlaces.model_validate({**places, "supervisor": "shared"})
    ctx, _ = context_on(tmp_path, server=server)
    with pytest.raises(MissingPrerequisite, match="the place of this server allows none"):
        Replica().check(ReplicaStep(name="r"), ctx)


def test_the_load_outlasts_all_phases() -> None:
    step = ReplicaStep.model_validate(
        {"name": "r", "warmup": "5s", "duration": "60s", "pause": "30s", "timeout": "10m", "rate": 300}
    )
    load = oltp_step(step)
    assert load.rate == 300
    assert load.test == "oltp_write_only"
    assert load.duration_s > 60 + 60 + 30 + 600


@pytest.mark.parametrize("wrong", [{"pause": "1s"}, {"duration": "1s"}, {"test": "oltp_read_only"}, {"rate": 0}])
def test_what_cannot_be_measured_is_refused_in_the_suite(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReplicaStep.model_validate(wrong)


def test_other_data_on_the_replica_is_named() -> None:
    source = {"a": TableSum(rows=3, checksum=1), "b": TableSum(rows=1, checksum=1)}
    replica = {"a": TableSum(rows=2, checksum=1), "b": TableSum(rows=1, checksum=9)}
    assert differences(source, replica, copy="replica") == [
        "a has 3 rows, replica 2",
        "b has checksum 1, replica 9",
    ]
