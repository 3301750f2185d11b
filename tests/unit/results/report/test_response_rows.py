"""Rows, points and sentences of responses, on loads whose waits are known."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from simulated_response import Load, cell, square_wave

from volbench.results.report.rows.response import (
    POINTS_MAX,
    QUERIES_MAX,
    agreement_text,
    cost_text,
    count_note,
    response_sentences,
    response_tables,
    slope_text,
)
from volbench.results.report.views.response import response_lines

SECONDS = 60


def view(seed: int, *, counted: float | None = None, valid: bool = True, queries: int = 0, steady: bool = False):
    rng = np.random.default_rng(seed)
    reads = np.full(SECONDS * 10, 1.0) if steady else square_wave(SECONDS, low_ms=0.5, high_ms=2, slot_s=5, rng=rng)
    load = Load(waits={"read": 20.0}, counted={"read": counted} if counted else {})
    samples = cell(load, {"read": reads}, rng=rng, name=f"0{seed}-v")
    by_query = {f"SELECT {number}": replace(samples, counted={}) for number in range(queries)}
    return SimpleNamespace(waits=samples, waits_by_query=by_query, valid=valid)


def explained(*views):
    return SimpleNamespace(
        views={("v", "read-only"): {f"0{n}-v": item for n, item in enumerate(views)}}, responses={}
    )


def test_a_load_has_a_row_with_its_count_and_a_sentence() -> None:
    tables = response_tables(explained(view(1), view(2)), ["v"])
    row = next(row for row in tables.rows if row.statistic == "mean")
    assert (row.term, row.agreement, row.cells, row.valid) == ("read", "agrees", 2, True)
    assert row.ci is not None
    assert row.ci[0] <= 20.0 <= row.ci[1]
    assert len(response_sentences(tables)) == 1


@pytest.mark.parametrize(("counted", "agreement"), [(40.0, "below"), (10.0, "above")])
def test_a_slope_that_contradicts_the_count_says_what_that_means(counted: float, agreement: str) -> None:
    row = response_tables(explained(view(1, counted=counted)), ["v"]).rows[0]
    assert row.agreement == agreement
    assert agreement_text(row)


@pytest.mark.parametrize(
    ("counted", "agreement", "sentence", "note"),
    [
        (
            20.0,
            "agrees",
            r"ms, while its wait for CPUs falls by [\d.]+ ms \([\d.]+ \[[\d., ]+\] ms without that\), and",
            "w",
        ),
        (40.0, "below", r"the 40.0 reads that the server counts, also without waits for CPUs \([\d.]+ \[", "below"),
    ],
)
def test_a_wait_for_cpus_that_falls_while_reads_are_slow_is_said(
    counted: float, agreement: str, sentence: str, note: str
) -> None:
    """On two CPUs a read cost 6.17 ms a ms, 7.64 without the wait for CPUs, and 7.53 are counted."""
    rng = np.random.default_rng(1)
    reads = square_wave(SECONDS, low_ms=0.5, high_ms=2, slot_s=4, rng=rng)
    load = Load(waits={"read": 20.0}, counted={"read": counted}, cpu_ms=10.0, cpu_wait_ms=16.0)
    samples = cell(load, {"read": reads}, rng=rng, signals={"read": (reads > 1).astype(float)})
    modulated = SimpleNamespace(waits=samples, waits_by_query={}, valid=True)
    tables = response_tables(explained(modulated), ["v"])
    row = tables.rows[0]
    assert (row.agreement, row.less_cpu_wait is not None) == (agreement, True)
    assert row.ci is not None
    assert row.ci[1] < counted
    assert row.less_cpu_wait == pytest.approx(20.0, rel=0.05)
    (text,) = response_sentences(tables)
    assert re.search(sentence, text), text
    assert note in count_note(row)
    assert count_note(row) in "".join(response_lines(cast("Any", SimpleNamespace(responses=tables.rows)), str))


def test_disturbed_cells_are_used_only_where_none_is_valid() -> None:
    both = response_tables(explained(view(1), view(2, valid=False)), ["v"]).rows[0]
    disturbed = response_tables(explained(view(2, valid=False)), ["v"]).rows[0]
    assert (both.cells, both.valid) == (1, True)
    assert (disturbed.cells, disturbed.valid) == (1, False)


def test_a_volume_without_a_valid_cell_is_in_the_response_with_its_disturbed_ones() -> None:
    """In a demo all cells of gp3 had late operations; its steady disk alone said nothing of what a read costs."""
    of_disk = {"01-disk": view(1, steady=True), "02-disk": view(2, steady=True)}
    of_gp3 = {"03-gp3": view(3, valid=False), "04-gp3": view(4, valid=False)}
    views = {("disk", "read-only"): of_disk, ("gp3", "read-only"): of_gp3}
    row = response_tables(cast("Any", SimpleNamespace(views=views, responses={})), ["disk", "gp3"]).rows[0]
    assert (row.cells, row.valid) == (4, False)
    assert row.ci is not None
    assert row.ci[0] <= 20.0 <= row.ci[1]


def test_a_steady_load_says_what_would_tell_its_response() -> None:
    tables = response_tables(explained(view(1, steady=True)), ["v"])
    assert tables.rows == ()
    assert tables.undetermined[0].advice in response_sentences(tables)[0]


def test_a_slope_that_is_not_sharp_is_said_to_be_none_and_what_would_sharpen_it() -> None:
    """A demo beside other work had rows, 14.4 [4.04, 24.8], and not a word on what a millisecond costs."""
    tables = response_tables(explained(view(1)), ["v"])
    rows = tuple(row.model_copy(update={"slope": 14.4, "ci": (4.04, 24.8)}) for row in tables.rows)
    (sentence,) = response_sentences(replace(tables, rows=rows), of_step="read-only")
    assert "is not known well: each millisecond of a read of data files 14.4 [4.04, 24.8] ms. To" in sentence
    assert "more cells" in sentence
    between = tuple(row.model_copy(update={"method": "between"}) for row in rows)
    (sentence,) = response_sentences(replace(tables, rows=between), of_step="read-only")
    assert "measure a further volume" in sentence
    nothing = tuple(row.model_copy(update={"ci": (-1e6, 1e6)}) for row in tables.rows)
    (sentence,) = response_sentences(replace(tables, rows=nothing))
    assert "is not known well. To know it, measure longer cells" in sentence


def test_classes_of_statements_are_limited_and_so_are_points() -> None:
    tables = response_tables(explained(*(view(n, queries=QUERIES_MAX + 3) for n in range(40))), ["v"])
    assert len({row.query for row in tables.rows} - {""}) == QUERIES_MAX
    assert 0 < len(tables.points) <= POINTS_MAX


@pytest.mark.parametrize(("known_on", "statistics"), [(("fast", "slow"), {"mean", "p95"}), (("fast",), {"mean"})])
def test_a_percentile_that_one_volume_lacks_has_no_slope(known_on: tuple[str, ...], statistics: set[str]) -> None:
    """A slow volume finishes too few transactions in a second for their p95."""
    views: dict[tuple[str, str], dict[str, Any]] = {}
    for volume, read_ms in (("fast", 0.5), ("slow", 2.0)):
        for number in range(5):
            rng = np.random.default_rng(10 * number)
            steady = np.full(80, read_ms * rng.normal(1, 0.05))
            name = f"{number}-{volume}"
            samples = cell(Load(waits={"read": 20.0}, volume=volume), {"read": steady}, rng=rng, name=name)
            quantiles = {0.95: 2 * samples.latency_ms} if volume in known_on else {}
            samples = replace(samples, latency_quantiles_ms=quantiles)
            view_of_cell = SimpleNamespace(waits=samples, waits_by_query={}, valid=True)
            views.setdefault((volume, "read-only"), {})[name] = view_of_cell
    run: Any = SimpleNamespace(views=views, responses={})
    tables = response_tables(run, ["fast", "slow"])
    assert {row.statistic for row in tables.rows} == statistics


def test_a_run_without_transactions_has_no_response() -> None:
    nothing = explained(SimpleNamespace(waits=None, waits_by_query={}, valid=True))
    tables = response_tables(nothing, ["v"])
    assert (tables.rows, tables.undetermined, response_sentences(tables)) == ((), (), ())


def test_a_slope_that_says_nothing_is_not_printed() -> None:
    """Of a demo stood `−21.6 [−7,711, 7,668]`, and 0 for waits that no count held."""
    row = response_tables(explained(view(1)), ["v"]).rows[0]
    wide = 1.01 * row.latency_ms / row.await_ms
    near, far = ((row.slope - half, row.slope + half) for half in (0.97 * wide, wide))
    assert slope_text(row.model_copy(update={"ci": near})) != "not known"
    assert slope_text(row.model_copy(update={"ci": far})) == "not known"
    assert slope_text(row.model_copy(update={"ci": None, "counted": None, "slope": 0.0})) == "not known"
    below = row.model_copy(update={"slope": -15.5, "ci": (-31.7, 2.59), "await_ms": 1.0, "latency_ms": 260.0})
    assert slope_text(below) == "\N{MINUS SIGN}15.5 [\N{MINUS SIGN}31.7, 2.59]"
    assert cost_text(below) == "nothing that shows [\N{MINUS SIGN}31.7, 2.59]"
    assert cost_text(row) == slope_text(row)
    assert slope_text(row.model_copy(update={"ci": None, "counted": (1.7, 4.0), "slope": 2.85})) == "2.85"


def test_markdown_has_no_table_of_a_load_whose_costs_are_unknown() -> None:
    tables = response_tables(explained(view(1)), ["v"])
    known = SimpleNamespace(responses=tables.rows)
    assert "20" in "".join(response_lines(cast("Any", known), str))
    wide = tuple(
        row.model_copy(update={"ci": (-1e6, 1e6)}) if row.statistic == "mean" else row for row in tables.rows
    )
    assert list(response_lines(cast("Any", SimpleNamespace(responses=wide)), str)) == []
