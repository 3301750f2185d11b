"""What a millisecond of the volume costs a server in use: told where its own counts confirm it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import synthetic_observation

from volbench.observe.cases import case_of
from volbench.observe.report import as_json, report_of
from volbench.observe.response import INTERVALS_MIN, ObservedResponse, observed_response
from volbench.observe.sections import document_of
from volbench.results.report.formats.sections import sections_markdown, sections_page
from volbench.results.stats.grid import Floats
from volbench.results.store.series import Series, SeriesKey

READS, OTHER_MS = 1.4, 0.5
"""Of a statement."""
SECONDS = 600
Rows = dict[SeriesKey, Series]


def walk(generator: np.random.Generator, seconds: int) -> Floats:
    """An await that wanders between 0.6 and 3 ms, as a volume with neighbours."""
    steps = np.repeat(generator.choice([0.6, 1.0, 1.5, 2.2, 3.0], seconds // 5 + 1), 5)[:seconds]
    return np.asarray(steps * generator.lognormal(0, 0.05, seconds))


def observed(
    seed: int,
    *,
    seconds: int = SECONDS,
    await_ms: Floats | None = None,
    slow: Callable[[Floats], Floats] = lambda await_ms: 0 * await_ms,
    counts: float = READS,
) -> ObservedResponse | None:
    """The response of statements that wait for READS reads each; `slow` adds what is slow at the same seconds."""
    generator = np.random.default_rng(seed)
    t_s = np.arange(1.0, seconds + 1)
    await_ms = walk(generator, seconds) if await_ms is None else await_ms
    rate = generator.poisson(800, seconds).astype(float)
    latency = (OTHER_MS + READS * await_ms + slow(await_ms)) * generator.lognormal(0, 0.03, seconds)
    columns = {
        ("performance_schema", "statements_per_s", ""): rate,
        ("performance_schema", "statement_ms", ""): latency,
        ("innodb", "buffer_pool_reads_per_s", ""): counts * rate,
        ("diskstats", "reads_per_s", "vda"): READS * rate,
        ("diskstats", "r_await_ms", "vda"): await_ms,
        ("diskstats", "writes_per_s", "vda"): np.zeros(seconds),
        ("diskstats", "w_await_ms", "vda"): np.zeros(seconds),
    }
    series: Rows = {
        SeriesKey(source=source, metric=metric, entity=entity): Series(t_s=t_s, value=value)
        for (source, metric, entity), value in columns.items()
    }
    return observed_response(case_of(series, synthetic_observation.observation()), series, "vda")


@pytest.mark.parametrize("seed", range(8))
def test_a_slope_that_the_server_counts_is_told(seed: int) -> None:
    response = observed(seed)
    assert response is not None
    (slope,) = response.slopes
    assert slope.low <= READS <= slope.high
    assert slope.high - slope.low < 0.5 * READS
    assert response.sentence.startswith("Each millisecond of a read of data files costs a statement 1.")
    assert "counts 1.40" in response.sentence


@pytest.mark.parametrize("seed", range(8))
def test_what_was_slow_at_the_same_seconds_is_no_cost_of_the_volume(seed: int) -> None:
    """More visitors make the volume slow, and CPUs as well: the slope is twice the count."""
    response = observed(seed, slow=lambda await_ms: READS * await_ms)
    assert response is not None
    assert response.slopes == ()
    assert "is not determined" in response.sentence
    assert "Something else was slow" in response.sentence


@pytest.mark.parametrize("seed", range(4))
def test_a_load_that_reads_in_parallel_is_told_as_that(seed: int) -> None:
    response = observed(seed, counts=3 * READS)
    assert response is not None
    assert response.slopes == ()
    assert "in parallel or ahead" in response.sentence


def test_a_steady_volume_tells_nothing() -> None:
    response = observed(1, await_ms=np.full(SECONDS, 1.2))
    assert response is not None
    assert response.slopes == ()
    assert "no waiting time of the volume moved" in response.sentence
    assert "modulate" not in response.sentence, "nobody modulates a volume in use"


def test_a_short_observation_says_how_long_it_takes() -> None:
    response = observed(1, seconds=INTERVALS_MIN - 1)
    assert response is not None
    assert f"{INTERVALS_MIN} are needed" in response.sentence


def test_every_form_of_the_report_has_the_sentence(tmp_path: Path) -> None:
    synthetic_observation.build(tmp_path / "o", 40, lambda second: (50.0, 1.0 + second % 3, 1.0))
    response = observed(0)
    assert response is not None
    report = replace(report_of(tmp_path / "o"), response=response)
    document = document_of(report)
    assert response.sentence in sections_markdown(document, str)
    assert response.sentence in sections_page(document)
    assert as_json(report)["response"]["sentence"] == response.sentence
