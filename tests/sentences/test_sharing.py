"""Several servers on one volume: each number of the sentences against what each server of each cell did."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proofread import EXAMPLES
from raw_decisions import Level, Sharing, cells_of, sharing, table
from sentence_runs import RESULT, volumes
from synthetic_run import OLTP, Synthetic, build_run

from sentences import plain, value_of
from volbench.core.records.cell import COUNTED_AS_SLOWEST
from volbench.core.records.metrics import metric
from volbench.core.records.report import Report
from volbench.core.records.steps.instances import InstancesStep
from volbench.measure.workload.instances.sharing import Loaded, sharing_metrics
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown

STEP = InstancesStep(name="several", counts=(2, 3, 4), rate=250)
KEEPS, P95_MS, LIMIT = 0.9, 20.0, 1002.0
TPS = {2: (249.0, 248.0), 3: (247.0, 246.0, 243.0), 4: (240.0, 236.0, 232.0, 180.0)}
"""What each of so many servers did, of 250 alone."""
OPERATIONS = 1.08
"""Reads of a transaction."""
FIT = re.compile(
    r"(?P<fit>\d+) servers? fits? on volume (?P<volume>\S+) in step (?P<step>[\w-]+), each with at least"
    r" (?P<keeps>\d+) % of its transactions alone and a p95 of (?P<p95>[\d,.]+) ms; with (?P<breaks>\d+),"
    r" (?:the slowest|one) kept (?P<least>[\d.]+) %(?: in some cells)?, and the slowest p95"
    r" (?:is beyond what was measured|was (?P<slowest>[\d,.]+) ms)"
)
FAIR = re.compile(
    r"(?P<servers>\d+) servers shared volume \S+ (?P<how>un)?fairly in step (?P<step>[\w-]+): Jain's index is"
    r" (?P<jain>[\d.]+), (?:the slowest|one) kept (?:at least )?(?P<least>[\d.]+) % of its rate alone, all"
    r" (?P<mean>[\d.]+) % on average \((?:the reciprocal of their number is )?(?P<even>\d+) %"
)
COMPUTED = re.compile(
    r"One server alone uses (?P<used>[\d.]+) % of the (?P<limit>[\d,]+) operations/s that volume \S+ allows: by"
    r" computation that carries at most (?P<carried>\d+) servers?, (?P<check>as measured)?"
)


def write_servers(cell: Path, number: int) -> None:
    """Let a cell have the step `several`, as its agent records it: each server's figures, and those of all."""
    result = json.loads((cell / RESULT).read_text())
    load = result["steps"][0]
    scale = 1 + number / 200
    alone = Loaded(tps=250.0 * scale, latency_ms_mean=2.0, latency_ms_p95=3.0 + number)

    def row(suffix: str, servers: Sequence[Loaded], values: dict[str, float]) -> dict[str, Any]:
        reads = OPERATIONS * sum(server.tps for server in servers)
        counted = {**values, "iops_read": reads, "read_mib_per_s": reads / 64}
        figures = [
            {
                "server": place,
                "tps": server.tps,
                "latency_ms_mean": server.latency_ms_mean,
                **({} if server.latency_ms_p95 is None else {"latency_ms_p95": server.latency_ms_p95}),
            }
            for place, server in enumerate(servers, start=1)
        ]
        return {
            **load,
            "step": f"several/{suffix}",
            "kind": "instances",
            "parameters": {"threads": 2, "rate": 250, "keeps": KEEPS, "p95_s": P95_MS / 1000}
            | {"instances": len(servers)},
            "metrics": {name: metric(name, value).model_dump(mode="json") for name, value in counted.items()},
            "details": {"servers": figures},
            "notes": [f"3 transactions: {COUNTED_AS_SLOWEST}"]
            if any("latency_ms_p95" not in s for s in figures)
            else [],
        }

    first = {"tps_of_all": alone.tps, "latency_ms_p95": alone.latency_ms_p95 or 0.0, "latency_ms_mean": 2.0}
    steps = [{**load, "step": "several", "kind": "instances", "metrics": {}}, row("alone", [alone], first)]
    for count, speeds in TPS.items():
        servers = [
            Loaded(
                tps=tps * scale,
                latency_ms_mean=500.0 / tps + place,
                latency_ms_p95=None if count == 4 and place == 3 else 4.0 + count + place,
            )
            for place, tps in enumerate(speeds)
        ]
        steps.append(row(str(count), servers, sharing_metrics([alone], servers)))
    if number == 2:  # a cell that does not count: its servers would all fit
        steps[-1] |= {"valid": False, "invalid_reasons": ["client CPU-bound"]}
    result["steps"] = [load, *steps]
    (cell / RESULT).write_text(json.dumps(result))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Sharing]:
    volume = replace(volumes(1.4)[0], profile=f"ebs-io2?size=100GiB&iops={LIMIT:.0f}")
    run = build_run(tmp_path_factory.mktemp("several"), Synthetic(volumes=(volume,), steps=(OLTP, STEP), repeats=3))
    for number, cell in enumerate(sorted((run.path / "cells").iterdir())):
        write_servers(cell, number)
    return build_report(run), sharing(cells_of(run.path), "several", keeps=KEEPS, p95_ms=P95_MS)


def objections(text: str, raw: Sharing, limit_per_s: float) -> list[str]:
    """What the sentences on one step have otherwise than the servers."""
    fits, fair, computed = FIT.search(text), FAIR.search(text), COMPUTED.search(text)
    assert fits is not None, text
    assert fair is not None, text
    assert computed is not None, text
    broken = next(level for level in raw.levels if level.servers == raw.breaks_at)
    most = raw.levels[-1]
    used = raw.operations_alone / limit_per_s
    pairs = {
        "fit": (value_of(fits["fit"]), raw.fit),
        "keeps": (value_of(fits["keeps"]), pytest.approx(100 * KEEPS)),
        "breaks": (value_of(fits["breaks"]), raw.breaks_at),
        "least": (value_of(fits["least"]), pytest.approx(100 * broken.least, abs=0.51)),
        "slowest p95": (
            fits["slowest"] and value_of(fits["slowest"]),
            None if broken.p95_ms is None else pytest.approx(broken.p95_ms, rel=0.006),
        ),
        "servers": (value_of(fair["servers"]), most.servers),
        "fairly": (fair["how"] is None, most.jain >= 0.9),
        "jain": (value_of(fair["jain"]), pytest.approx(most.jain, abs=0.00051)),
        "least of most": (value_of(fair["least"]), pytest.approx(100 * most.least, abs=0.51)),
        "mean": (value_of(fair["mean"]), pytest.approx(100 * most.mean, abs=0.51)),
        "even": (value_of(fair["even"]), pytest.approx(100 / most.servers, abs=0.51)),
        "used": (value_of(computed["used"]), pytest.approx(100 * used, abs=0.51)),
        "limit": (value_of(computed["limit"]), limit_per_s),
        "carried": (value_of(computed["carried"]), raw.carried(limit_per_s)),
        "check": (computed["check"] is not None, raw.carried(limit_per_s) == raw.fit),
    }
    return [f"{name}: {stated}" for name, (stated, right) in pairs.items() if stated != right]


def of_table(text: str, raw: Sharing) -> list[str]:
    """What the table has otherwise than the servers."""
    rows = {row[2]: row for row in table(text, "volume") if len(row) == 11 and row[1] == "several"}
    texts = [] if rows.keys() == {"1", *(str(level.servers) for level in raw.levels)} else [f"rows {[*rows]}"]
    for level in raw.levels:
        *_, tps, least, mean, by_limit, jain, slowdown, p95, fits = rows.get(str(level.servers), [""] * 11)
        expected = (level.tps, 100 * level.least, 100 * level.mean, level.jain, level.slowdown, level.p95_ms)
        stated = [number(figure) for figure in (tps, least, mean, jain, slowdown, p95)]
        right = [None if value is None else pytest.approx(value, rel=0.0075) for value in expected]
        if stated != right:
            texts.append(f"{level.servers}: {stated}")
        share = min(1.0, LIMIT / (level.servers * raw.operations_alone))
        if number(by_limit) != pytest.approx(100 * share, abs=0.51):
            texts.append(f"{level.servers}: {by_limit}")
        if fits != {frozenset({True}): "yes", frozenset({False}): "no"}.get(level.fits, "in some cells"):
            texts.append(f"{level.servers}: {fits}")
    return texts


def number(text: str) -> float | None:
    return value_of(text.partition(" ")[0]) if text[:1].isdigit() else None


def test_sentences_and_table_are_those_of_the_servers(built: tuple[Report, Sharing]) -> None:
    report, raw = built
    (row,) = report.sharing
    assert (raw.fit, raw.breaks_at, row.cells) == (3, 4, 2)
    assert objections(plain(" ".join(row.sentences)), raw, LIMIT) == []
    assert of_table(plain(markdown(report)), raw) == []


@pytest.mark.parametrize(
    ("stated", "wrong"),
    [
        ("3 servers fit", "2 servers fit"),
        ("with 4,", "with 3,"),
        ("at most 3 servers, as", "at most 4 servers, as"),
        ("Jain's index is 0.98", "Jain's index is 0.97"),
        (" fairly ", " unfairly "),
        ("(25 % if", "(33 % if"),
        ("1,002 operations/s", "1,020 operations/s"),
    ],
)
def test_a_wrong_number_of_a_sentence_is_found(built: tuple[Report, Sharing], stated: str, wrong: str) -> None:
    report, raw = built
    text = plain(" ".join(report.sharing[0].sentences))
    assert stated in text
    assert objections(text.replace(stated, wrong), raw, LIMIT)


@pytest.mark.parametrize("name", ["least", "mean", "jain", "tps", "slowdown"])
def test_other_servers_would_be_other_sentences(built: tuple[Report, Sharing], name: str) -> None:
    """Each figure of the files is in the sentences or in the table."""
    report, raw = built
    last: Level = raw.levels[-1]
    other = replace(raw, levels=(*raw.levels[:-1], replace(last, **{name: 0.95 * getattr(last, name)})))
    text = plain(markdown(report))
    assert of_table(text, other) or objections(plain(" ".join(report.sharing[0].sentences)), other, LIMIT)


COMMITTED = plain((EXAMPLES / "several-databases" / "report.md").read_text())


def recorded() -> dict[str, list[str]]:
    """Servers -> a line of the recorded table, of the step in which all have one load."""
    return {row[2]: row for row in table(COMMITTED, "volume") if len(row) == 11 and row[1] == "alike"}


def recorded_objections(text: str) -> list[str]:
    """What the recorded sentences have otherwise than the recorded table, where each was offered the same load."""
    rows = recorded()
    fits, fair, computed = FIT.search(text), FAIR.search(text), COMPUTED.search(text)
    assert fits is not None
    assert fair is not None
    assert computed is not None
    kept = {
        int(count): 100 * (number(row[3]) or 0) / (int(count) * (number(rows["1"][3]) or 1))
        for count, row in rows.items()
    }
    used = 100 / (4 * (number(rows["4"][6]) or 1) / 100)  # with 4, each keeps the reciprocal of what they ask for
    pairs = {
        "fit": (fits["fit"], max(count for count, row in rows.items() if row[10] == "yes")),
        "breaks": (fits["breaks"], min(count for count, row in rows.items() if row[10] == "no")),
        "least": (fits["least"], rows["4"][4].partition(" ")[0]),
        "slowest": (fits["slowest"] is None, number(rows["4"][9]) is None),
        "jain": (fair["jain"], rows["4"][7]),
        "mean": (value_of(fair["mean"]), pytest.approx(kept[4], abs=0.6)),
        "even": (fair["even"], "25"),
        "used": (value_of(computed["used"]), pytest.approx(used, abs=0.6)),
        "carried": (int(computed["carried"]), int(100 / used)),
    }
    return [f"{name}: {stated}" for name, (stated, right) in pairs.items() if stated != right]


def test_the_recorded_page_does_not_contradict_its_table() -> None:
    assert len(recorded()) == 4
    assert recorded_objections(COMMITTED) == []


@pytest.mark.parametrize(
    ("stated", "wrong"),
    [("3 servers fit", "4 servers fit"), ("uses 32 %", "uses 27 %"), ("all 80 % on", "all 84 % on")],
)
def test_a_wrong_number_of_the_recorded_page_is_found(stated: str, wrong: str) -> None:
    assert stated in COMMITTED
    assert recorded_objections(COMMITTED.replace(stated, wrong))
