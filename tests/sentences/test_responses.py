"""What a millisecond of the volume costs, in sentences of runs and of `observe`, against lines through points."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from simulated_response import Load, square_wave
from simulated_response import cell as simulated_cell
from synthetic_observation import observation

from sentences import NUMBER, value_of
from volbench.observe.cases import case_of
from volbench.observe.response import observed_response
from volbench.results.explain.run import RunExplanation
from volbench.results.report.rows.response import response_sentences, response_tables, slope_text
from volbench.results.store.series import Series, SeriesKey

WAITS, SECONDS = 20.0, 60
SENTENCE = re.compile(
    r"Each millisecond of a read of data files costs a transaction of read-only"
    r"(?P<invalid> \(with disturbed cells\))? "
    r"(?P<slope>[\d.]+) \[(?P<low>[\d.]+), (?P<high>[\d.]+)\] ms, "
    r"(?P<how>and the server counts|less than the|more than the) (?P<count>[\d.]+) reads"
)


def explanation(counted: float, *, valid: bool) -> tuple[RunExplanation, list[Any]]:
    """Three cells of a load with WAITS reads a transaction, of which the server counts another number."""
    samples = []
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        awaits = {"read": square_wave(SECONDS, low_ms=0.5, high_ms=2, slot_s=5, rng=rng)}
        load = Load(waits={"read": WAITS}, counted={"read": counted})
        samples.append(simulated_cell(load, awaits, rng=rng, name=f"0{seed}-v"))
    views = {cell.cell: SimpleNamespace(waits=cell, waits_by_query={}, valid=valid) for cell in samples}
    made = SimpleNamespace(views={("v", "read-only"): views}, responses={})
    return cast("RunExplanation", made), samples


@pytest.mark.parametrize(("counted", "how"), [(20.0, "and"), (40.0, "less"), (10.0, "more")])
@pytest.mark.parametrize("valid", [True, False])
def test_a_run_states_the_slope_of_its_points_and_the_servers_count(counted: float, how: str, valid: bool) -> None:
    explained, samples = explanation(counted, valid=valid)
    tables = response_tables(explained, ["v"])
    (sentence,) = response_sentences(tables)
    match = SENTENCE.match(sentence)
    assert match is not None, sentence
    slope, low, high, count = (value_of(match[name]) for name in ("slope", "low", "high", "count"))
    points = [np.concatenate(column) for column in zip(*map(columns, samples), strict=True)]
    line = np.polyfit(points[0], points[1], 1, w=np.sqrt(points[2]))
    assert slope == pytest.approx(float(line[0]), rel=0.05)
    assert low < slope < high
    assert low <= WAITS <= high
    assert count == counted
    assert match["how"].startswith(how)
    assert bool(match["invalid"]) != valid
    assert not NUMBER.search(sentence.replace(match[0], ""))


def columns(samples: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """Await, latency and transactions of seconds within one state: of others the await is a mixture."""
    awaits, latency, finished = samples.awaits_ms["read"], samples.latency_ms, samples.finished
    steady = np.abs(np.diff(awaits, prepend=awaits[0])) < 0.2
    return awaits[steady], latency[steady], finished[steady]


def test_no_statistic_has_an_interval_without_width() -> None:
    """Of p99, whose points lie on a line where nothing scatters, stood `13.5 [13.5, 13.5]`."""
    tables = response_tables(explanation(WAITS, valid=True)[0], ["v"])
    assert {"mean", "p50", "p95", "p99"} >= {row.statistic for row in tables.rows} >= {"mean"}
    exact = [row.model_copy(update={"slope": 13.5, "ci": (13.499, 13.501)}) for row in tables.rows]
    for text in map(slope_text, (*tables.rows, *exact)):
        assert not re.search(r"\[([\d.]+), \1\]", text), text
    assert slope_text(exact[0]) == "13.5 [about 13.5]"


@pytest.mark.parametrize("counted", [1.4, 3.0, 0.4])
def test_a_response_is_the_slope_of_the_seconds_and_the_count_of_the_server(counted: float) -> None:
    """Two figures and an interval stand in the sentence: a line through the points, and reads of a statement."""
    generator, seconds = np.random.default_rng(7), 600
    await_ms = np.repeat(generator.choice([0.6, 1.0, 1.5, 2.2, 3.0], 120), 5) * generator.lognormal(
        0, 0.05, seconds
    )
    rate = generator.poisson(800, seconds).astype(float)
    mean_ms = (0.5 + 1.4 * await_ms) * generator.lognormal(0, 0.03, seconds)
    columns = {
        ("performance_schema", "statements_per_s", ""): rate,
        ("performance_schema", "statement_ms", ""): mean_ms,
        ("innodb", "buffer_pool_reads_per_s", ""): counted * rate,
        ("diskstats", "reads_per_s", "vda"): 1.4 * rate,
        ("diskstats", "r_await_ms", "vda"): await_ms,
    }
    t_s = np.arange(1.0, seconds + 1)
    series = {
        SeriesKey(source=key[0], metric=key[1], entity=key[2]): Series(t_s=t_s, value=value)
        for key, value in columns.items()
    }
    response = observed_response(case_of(series, observation()), series, "vda")
    assert response is not None
    match = re.search(
        r"(?:costs a statement|went with) (?P<slope>[\d.]+) \[(?P<low>[\d.]+), (?P<high>[\d.]+)\] ms .*"
        r"counts (?P<count>[\d.]+) of them for one",
        response.sentence,
    )
    assert match is not None, response.sentence
    slope, low, high, count = (value_of(figure) for figure in match.groups())
    assert slope == pytest.approx(float(np.polyfit(await_ms, mean_ms, 1, w=np.sqrt(rate))[0]), rel=0.05)
    assert low < slope < high
    assert count == pytest.approx(counted, rel=0.0051)
    assert not NUMBER.search(response.sentence.replace(match[0], ""))
    assert ("costs a statement" in match[0]) == (low <= count <= high)
