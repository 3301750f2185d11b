"""What Prometheus is told: names of the exporters, valid OpenMetrics, nothing that is not known."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from volbench.errors import MissingPrerequisite, UsageError
from volbench.measure.sample.interface import Reading
from volbench.observe.exposition import ObservationCollector
from volbench.observe.listening import parse_listen, serve
from volbench.observe.observer import Now

DASHBOARD = Path(__file__).parents[3] / "docs/grafana/volbench-observe.json"
DISK = {"reads": 10, "read_sectors": 2048, "read_ms": 1500, "in_flight": 3, "writes": 7}
READINGS = {
    "diskstats": Reading(t_s=5.0, values={(name, "vda"): value for name, value in DISK.items()}),
    "innodb": Reading(
        t_s=5.0, values={("connection", ""): 1, ("innodb_data_reads", ""): 42, ("threads_running", ""): 4}
    ),
    "performance_schema": Reading(t_s=5.0, values={("statements", ""): 900, ("statement_ps", ""): 3 * 10**12}),
}


def now() -> Now:
    metrics = {"p95": 12.0, "credits": 40.0, "await": 2.0, "p99": 50.0}
    observed = {**dict.fromkeys(metrics, 5.0), "p99": -100.0}
    return Now(
        t_s=6.0, metrics=metrics, seen_s=observed, incidents=2, suspicion='storage.stall (confidence 0.98)\n"x"'
    )


def samples(readings: Mapping[str, Reading], known_values: Now) -> dict[tuple[str, str], float]:
    """As another reader of the format sees it."""
    registry = CollectorRegistry()
    registry.register(ObservationCollector(lambda: readings, known_values))
    text = exposition.generate_latest(registry).decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counters_have_the_exporters_names_and_units() -> None:
    result = samples(READINGS, now())
    assert result["node_disk_reads_completed_total", "vda"] == 10
    assert result["node_disk_read_bytes_total", "vda"] == 1 << 20
    assert result["node_disk_read_time_seconds_total", "vda"] == 1.5
    assert result["node_disk_io_now", "vda"] == 3
    assert result["mysql_global_status_innodb_data_reads", ""] == 42
    assert result["volbench_statement_latency_seconds_sum", ""] == 3.0
    assert result["volbench_statement_latency_seconds_count", ""] == 900
    assert result["volbench_statement_latency_seconds", "0.95"] == 0.012
    assert result["volbench_volume_credits_ratio", ""] == 0.4
    assert result["volbench_incidents_total", ""] == 2


def test_what_is_not_known_now_is_absent() -> None:
    result = samples(READINGS, now())
    assert ("volbench_statement_latency_seconds", "0.99") not in result, "it is of long ago"
    nothing = samples({}, Now())
    assert {name for name, _ in nothing} == {
        "volbench_incidents_total",
        "volbench_incident",
        "volbench_suspicion_info",
    }


@pytest.fixture
def address() -> Iterator[str]:
    for port in range(39_104, 39_204):
        try:
            server = serve("127.0.0.1", port, ObservationCollector(lambda: READINGS, now()))
        except MissingPrerequisite:
            continue
        yield f"127.0.0.1:{port}"
        server.shutdown()
        server.server_close()
        return


def test_prometheus_is_answered_in_the_format_that_it_asks_for(address: str) -> None:
    expected = urllib.request.Request(
        f"http://{address}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    with urllib.request.urlopen(expected, timeout=60) as answer:  # noqa: S310
        assert "openmetrics-text" in answer.headers["Content-Type"]
        assert answer.read().decode().endswith("# EOF\n")
    with pytest.raises(MissingPrerequisite, match="nobody can be answered there"):
        serve(*parse_listen(address), ObservationCollector(dict, Now()))


@pytest.mark.parametrize("text", ["9104", "127.0.0.1", "127.0.0.1:0", ":9104", "127.0.0.1:http", "h:99999"])
def test_an_address_without_a_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no address with a port"):
        parse_listen(text)
    assert parse_listen("[::1]:9104") == ("::1", 9104)


def test_every_metric_of_the_dashboard_is_one_that_is_told() -> None:
    messages = {name for name, _ in samples(READINGS, now())}
    messages |= {f"node_disk_{name}_total" for name in ("written_bytes", "write_time_seconds", "writes_completed")}
    dashboard = json.loads(DASHBOARD.read_text())
    exprs = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert exprs
    for expression in exprs:
        names = re.findall(r"\b(?:node|mysql|volbench)_\w+", expression)
        assert names, expression
        assert set(names) <= messages, expression
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_dashboards_variables_are_as_grafanas_schema_has_them() -> None:
    """An empty `current`, and a query that is an object, were refused by the schema that Grafana publishes."""
    dashboard = json.loads(DASHBOARD.read_text())
    variables = dashboard["templating"]["list"]
    assert [variable for variable in variables if variable.get("current", {"text": "", "value": ""}) == {}] == []
    assert {type(variable["query"]) for variable in variables} == {str}
    legends = [panel["options"]["legend"] for panel in dashboard["panels"] if panel["type"] == "timeseries"]
    assert all({"calcs", "displayMode", "placement", "showLegend"} <= set(legend) for legend in legends)
