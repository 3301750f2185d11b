"""The lab whose causes other mechanisms make: its conditions, what proves an injection, and its scores."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored_files import stored_text

import score_files
from causes import families, page, scoring
from causes.__main__ import DEFAULT_TO, FRESH, KNOWN, calibration_of
from causes.conditions import BEFORE_S, FOREVER_S, load_conditions, phases_of, setup_of
from causes.evidence import Evidence
from causes.machine import write_rate
from causes.observed import Finding, Run, accepted_others, by_account, cap_of, run_from, undisturbed
from causes.proof import Proof, prove
from causes.runner import INJECTORS
from volbench.results.explain.calibration import CALIBRATION
from volbench.results.explain.causes import CAUSES

WINDOW = (5.0, 15.0)
STEP = ((10.0, 15.0),)


def evidence(counters: Mapping[str, Any], *, phases: Any = STEP, steady: bool = False, **series: Any) -> Evidence:
    """Counters at 5 a second from 0 to 15 s; each a function of time. Series are one value a second."""
    times = np.arange(0.0, 15.01, 0.2)
    return Evidence(
        counters=[(float(t), {name: of(t) for name, of in counters.items()}) for t in times],
        phases=(WINDOW,) if steady else phases,
        window_s=WINDOW,
        series={
            ("client", name): (np.arange(1.0, 16.0), np.array([of(t) for t in range(1, 16)], float))
            for name, of in series.items()
        },
        is_steady=steady,
    )


def finding(cause: str, confidence: float = 0.95, checks: str = "all held", **evidence: Any) -> Finding:
    begin = evidence.pop("begin_s", 5.0)
    return Finding(
        cause=cause,
        confidence=confidence,
        share=0.5,
        window_s=(begin, 15.0),
        checks=checks,
        evidence={"checks": checks, **evidence},
    )


def run(truth: str | tuple[str, ...], *findings: Finding, family: str = "kernel", **more: Any) -> Run:
    values: dict[str, Any] = {
        "condition": "c",
        "family": family,
        "shape": "step",
        "number": 1,
        "lab_seed": 1,
        "truth": (truth,) if isinstance(truth, str) else truth,
        "accepted": (),
        "drawn": {},
        "place": "",
        "wall_s": 20.0,
        "failure": "",
        "missing": (),
        "onset_s": None,
        "cap_of": "",
        "measured": {},
        "findings": findings,
        **more,
    }
    return Run(**values)


def test_every_condition_draws_the_same_values_again_and_names_only_known_causes() -> None:
    for condition in load_conditions().values():
        setup = setup_of(condition, number=3, lab_seed=9)
        assert setup == setup_of(condition, number=3, lab_seed=9)
        assert setup != setup_of(condition, number=4, lab_seed=9)
        assert {name for truth in setup.truth for name in scoring.alternatives(truth)} <= set(CAUSES)
        assert set(setup.accepted) <= set(CAUSES)
        assert {spec["kind"] for spec in setup.inject} <= set(INJECTORS)
        assert setup.proof, "what is not proven is not scored"


def test_phases_lie_within_the_window() -> None:
    generator = np.random.default_rng(1)
    assert phases_of("steady", 9, generator) == ((BEFORE_S, FOREVER_S),)
    ((on_s, off_s),) = phases_of("episode", 15, generator)
    assert 0 < on_s < off_s < 15
    assert all(on_s < 16 for on_s, _ in phases_of("periodic", 16, generator))


def test_an_unknown_key_and_a_name_that_nothing_draws_are_refused(tmp_path: Path) -> None:
    text = "measured_s: {steady: 9}\nloads: {a: {step: {threads: $threads}}}\nconditions:\n"
    text += "  x: {family: f, text: t, truth: [none], load: a%s}\n"
    for more, arguments in ((", wrong: 1", "unknown wrong"), ("", "nothing is drawn for threads")):
        (tmp_path / "c.yaml").write_text(text % more)
        with pytest.raises(ValueError, match=arguments):
            load_conditions(tmp_path / "c.yaml")


def test_a_limit_that_operations_reach_is_proven_with_the_rate_that_was_counted() -> None:
    limited = evidence(
        {"blkio.loop.Read.ops": lambda t: 2000 * min(t, 10.0) + 495 * max(0.0, t - 10.0)},
        tps=lambda t: 100 if t <= 10 else 20,
    )
    proof = prove([{"kind": "limit", "of": "blkio.loop.Read.ops", "limit": 500}], limited)
    assert proof.injected
    assert proof.measured["cap"] == pytest.approx(495)
    assert proof.measured["effect_tps"] == pytest.approx(0.8)
    assert proof.onset_s == 10.0


def test_a_limit_that_alternates_is_met_at_its_mean() -> None:
    """Two seconds of 500 operations, two of 1500."""

    def served(t: float) -> float:
        return 4000 * (t // 4) + 500 * min(t % 4, 2) + 1500 * max(0.0, t % 4 - 2)

    row = {"kind": "limit", "of": "blkio.loop.Read.ops", "limit": 500}
    alternating = evidence({"blkio.loop.Read.ops": served}, steady=True)
    assert prove([{**row, "times": 2}], alternating).injected
    assert not prove([row], alternating).injected


def test_the_load_generators_wait_for_a_cpu_is_its_own() -> None:
    row = {"kind": "cpu-wait", "ratio_min": 0.5}
    crowded = evidence({f"client.{name}_s": lambda t: t for name in ("run", "wait")}, steady=True)
    assert prove([{**row, "of": "client"}], crowded).injected
    assert not prove([row], crowded).injected


def test_a_limit_that_nothing_reached_or_felt_is_not_injected() -> None:
    idle = evidence({"blkio.loop.Read.ops": lambda t: 100 * t}, tps=lambda _: 100)
    proof = prove([{"kind": "limit", "of": "blkio.loop.Read.ops", "limit": 500}], idle)
    assert [text.split(":")[0] for text in proof.missing] == [
        "blkio.loop.Read.ops came at 0.20 of its limit",
        "no effect",
    ]


def test_other_programs_begin_when_their_own_account_grows() -> None:
    late = evidence(
        {"foreign.read_bytes": lambda t: max(0.0, t - 11.0) * 20 * 2**20, "foreign.write_bytes": lambda _: 0},
        tps=lambda t: 100 if t <= 11 else 20,
    )
    proof = prove([{"kind": "foreign", "mib_per_s_min": 4}], late)
    assert proof.injected
    assert proof.onset_s == pytest.approx(11.1, abs=0.15)


def test_a_stall_is_proven_by_operations_that_do_not_end() -> None:
    stalled = evidence(
        {
            "disk.reads": lambda t: min(t, 10.0),
            "disk.writes": lambda _: 5,
            "disk.in_flight": lambda t: 3 * (t > 10),
        },
        tps=lambda t: 100 if t <= 10 else 0,
    )
    assert prove([{"kind": "stalled"}], stalled).injected
    working = evidence({"disk.reads": lambda t: 9 * t, "disk.writes": lambda _: 5, "disk.in_flight": lambda _: 1})
    assert not prove([{"kind": "stalled"}], working).injected


def test_a_load_that_others_kept_from_the_cpus_proves_nothing_else() -> None:
    proof = Proof(measured={"cpu_wait_s_per_s": 0.9})
    setup = {"truth": ["memory.buffer_pool_small"], "drawn": {"threads": 2}}
    assert undisturbed(proof, setup).missing == ("sessions waited for CPUs in 45% of their time",)
    assert undisturbed(proof, {**setup, "drawn": {"threads": 8}}).injected
    assert undisturbed(proof, {**setup, "truth": ["cpu.server_saturated|cpu.steal"]}).injected
    assert undisturbed(proof, {**setup, "truth": ["interference.cpu"]}).injected


def test_one_of_two_is_an_abstention_and_counts_apart() -> None:
    pair = run(
        "storage.throughput_limit",
        finding("storage.iops_limit", 0.5, "one of two"),
        finding("storage.throughput_limit", 0.5, "one of two"),
    )
    assert not scoring.is_named(pair)
    assert scoring.is_one_of_two_right(pair)
    assert not scoring.is_wrong_and_sure(pair)


def test_wrong_and_sure_acquittals_and_accusations() -> None:
    wrong = run("host.io_limit", finding("memory.buffer_pool_small", 0.97))
    assert scoring.is_wrong_and_sure(wrong)
    assert scoring.is_acquittal(wrong)
    assert not scoring.is_acquittal(run("host.io_limit")), "who says nothing acquits nobody"
    undecided = run("cpu.server_saturated|storage.sync_latency", finding("cpu.server_saturated"))
    assert not scoring.is_storage(undecided), "the lab itself leaves open whether storage was the cause"
    assert scoring.is_acquittal(run(("cpu.steal|none", "storage.stall"), finding("cpu.steal")))
    assert not scoring.is_acquittal(run("host.io_limit", finding("none"), finding("storage.degraded")))
    assert scoring.is_accusation(run("none", finding("cpu.server_saturated")))
    assert not scoring.is_accusation(
        run("none", finding("cpu.server_saturated"), accepted=("cpu.server_saturated",))
    )


def test_a_run_that_was_not_injected_counts_neither_as_right_nor_as_wrong() -> None:
    runs = [
        run("host.io_limit", finding("host.io_limit")),
        run("host.io_limit", finding("none"), missing=("no effect",)),
    ]
    bars = {bar.name: bar for bar in scoring.figures(runs)}
    assert bars["first cause right, of runs where one is named"].value == 1.0
    assert "1 not injected" in bars["runs"].meaning


def test_a_caps_figure_is_compared_with_what_was_counted() -> None:
    assert cap_of([{"kind": "limit", "of": "blkio.below.Write.bytes", "limit_mib": 3}]) == "write mib"
    named = run(
        "host.io_limit", finding("host.io_limit", read_iops=515), cap_of="read iops", measured={"cap": 500.0}
    )
    assert scoring.cap_error(named) == pytest.approx(0.03)


def test_the_start_of_other_programs_is_the_window_of_the_finding() -> None:
    named = run("interference.io", finding("interference.io", begin_s=11.5), onset_s=10.0)
    assert scoring.onset_error(named) == pytest.approx(1.5)
    assert scoring.onset_error(run("interference.io", finding("storage.read_latency"), onset_s=10.0)) is None


def test_confidences_of_a_family_are_counted_on_the_others_alone() -> None:
    """A cause that is always wrong in one family and always right in another."""
    runs = [run("x", finding("x"), family="a") for _ in range(50)] + [
        run("y", finding("x"), family="b") for _ in range(50)
    ]
    confidence = scoring.left_out(runs)
    of_a, of_b = (confidence(outcome, outcome.findings[0]) or 0.0 for outcome in (runs[0], runs[-1]))
    assert of_a < 0.1, "in the other family it was never true"
    assert of_b > 0.9


def test_two_causes_must_both_be_among_the_first_three() -> None:
    both = run(("a|b", "c"), finding("b"), finding("x"), finding("y"), finding("c"))
    assert scoring.recall([both]) == (1, 2)


def test_the_page_shows_what_lab_json_holds() -> None:
    runs = [
        run("host.io_limit", finding("host.io_limit", read_iops=515), cap_of="read iops", measured={"cap": 500.0}),
        run("interference.io", finding("storage.degraded"), family="foreign", onset_s=10.0),
        run("none", failure="the server did not start"),
    ]
    data = page.data_of(
        {"all samples": runs},
        load_conditions(),
        machine={
            "volbench_version": "1",
            "commit": "c",
            "at": "now",
            "load": "16 to 33",
            "known_seeds": [1, 9],
            "machine": {"cpu_model": "", "cpus": 2, "memory_bytes": 1, "kernel": "6"},
        },
    )
    assert "the server did not start" in page.html(data)
    assert "16 to 33" in page.html(data)
    assert "Verdicts of seeds 1, 9 were known" in page.html(data)
    assert [run_from(item) for item in data["runs"]["all samples"]] == runs


def test_nbdkits_rate_is_in_bits(tmp_path: Path) -> None:
    write_rate(tmp_path / "rate", 1.5)
    assert (tmp_path / "rate").read_text() == f"{int(1.5 * 2**23)}\n"


RESULTS = Path(__file__).parents[3] / "results" / "examples" / "lab" / "causes"


def rounded(scores: Any) -> Any:
    """As JSON, of twelve decimal places: sum() adds more exactly since Python 3.12."""
    return json.loads(json.dumps(scores), parse_float=lambda text: round(float(text), 12))


def test_published_scores_are_those_of_the_published_runs() -> None:
    data = json.loads(stored_text(RESULTS / score_files.DATA_FILE))
    labels = [label for label in data["readings"] if label.startswith((FRESH, KNOWN))]
    assert len(labels) >= 2
    for label in labels:
        names = (label, label.replace(FRESH, KNOWN))
        runs, known_values = ([run_from(item) for item in data["runs"][name]] for name in names)
        assert rounded(page.scores(runs, known_values)) == rounded(data["readings"][label])
    assert page.html(data) == (RESULTS / score_files.PAGE_FILE).read_text()


def test_the_confidences_in_use_are_those_of_the_committed_runs() -> None:
    """After `score`, `python -m causes calibrate` writes them."""
    scored = json.loads(stored_text(DEFAULT_TO / score_files.DATA_FILE))
    assert calibration_of(scored) == CALIBRATION


def test_confidences_are_counted_by_cause_and_evidence_and_checked_on_other_runs() -> None:
    """38 of 39 metered limits were true; the other half says the same, or does not."""

    def runs(right: int, wrong: int) -> list[Run]:
        named = finding("storage.iops_limit", decided_by="metered")
        return [
            *(run("storage.iops_limit", named) for _ in range(right)),
            *(run("none", named) for _ in range(wrong)),
        ]

    counted = scoring.calibrated("here", runs(38, 1), runs(19, 1))
    metered = counted.derived.by_evidence["storage.iops_limit"]["metered"]
    assert (metered.true, metered.findings, counted.agrees) == (38, 39, True)
    assert counted.confidence("all held", "storage.iops_limit", "metered") > 0.95
    assert scoring.calibrated("here", runs(38, 1), runs(10, 10)).agrees is False


def on_cpus(run: float, wait: float, idle: float) -> Proof:
    """A steady run of two CPUs: seconds a second of the server's threads, and idle."""
    counters = {
        "server.run_s": lambda t: run * t,
        "server.wait_s": lambda t: wait * t,
        "machine.idle_s": lambda t: idle * t,
    }
    of_two = dataclasses.replace(evidence(counters, steady=True), cpus=2)
    return prove([{"kind": "others-cpu", "ratio_min": 0.5}], of_two)


def test_others_on_the_cpus_are_proven_by_the_labs_own_counters() -> None:
    """The server wants both CPUs and has 0.4 of them. One that has them itself, or wants few, proves nothing."""
    assert on_cpus(0.4, 6.0, 0.0).injected
    assert on_cpus(0.4, 6.0, 0.0).measured["others_cpu_ratio"] == pytest.approx(0.8)
    assert not on_cpus(1.9, 6.0, 0.0).injected
    assert not on_cpus(0.4, 0.05, 1.5).injected


def test_whose_cpu_time_it_was_is_what_was_counted() -> None:
    burners = "cpu.server_saturated|cpu.steal"
    assert by_account(burners, {"others_cpu_ratio": 0.8}) == "interference.cpu"
    assert by_account(burners, {"others_cpu_ratio": 0.3}) == "interference.cpu|cpu.server_saturated"
    assert by_account(burners, {"others_cpu_ratio": 0.8}, pinned=True) == "interference.cpu|cpu.server_saturated"
    neighbour = "interference.io|cpu.server_saturated"
    assert by_account(neighbour, {"others_cpu_ratio": 0.8}) == f"{neighbour}|interference.cpu"
    assert by_account(neighbour, {"others_cpu_ratio": 0.1}) == neighbour
    assert by_account("cpu.server_saturated", {"others_cpu_ratio": 0.8}) == "cpu.server_saturated"
    assert by_account("host.io_limit", {"others_cpu_ratio": 0.8}) == "host.io_limit"


def test_others_are_accepted_beside_a_cause_only_where_counters_prove_them() -> None:
    assert accepted_others({"window_cpu_wait_ratio": 0.9, "window_others_cpu_ratio": 0.8}) == ("interference.cpu",)
    assert accepted_others({"window_cpu_wait_ratio": 0.2, "window_others_cpu_ratio": 0.8}) == ()
    assert accepted_others({}) == ()


def test_others_on_the_cpus_are_no_storage() -> None:
    """To name them for a limit acquits the volume; to name a limit for them accuses nobody of an acquittal."""
    assert scoring.is_acquittal(run("host.io_limit", finding("interference.cpu")))
    assert not scoring.is_acquittal(run("host.io_limit", finding("interference.io")))
    assert not scoring.is_storage(run("interference.cpu"))
    assert scoring.onset_error(run("interference.io", finding("interference.cpu", begin_s=9.0))) is None


def test_the_way_is_what_a_statement_takes_longer_than_on_the_socket() -> None:
    """400 statements a second that each are 10 ms on the way: 4 of 8 clients (Little's law)."""
    counted = evidence(
        {
            "path.least_s": lambda _: 0.0105,
            "socket.least_s": lambda _: 0.0005,
            "server.statements": lambda t: 400 * t,
        },
        tps=lambda t: 100 if t <= 10 else 20,
    )
    proof = prove([{"kind": "way", "threads": 8, "share_min": 0.3}], counted)
    assert proof.injected
    assert proof.measured["way_ms"] == pytest.approx(10.0)
    assert proof.measured["way_share"] == pytest.approx(0.5)
    assert not prove([{"kind": "way", "threads": 8, "share_max": 0.1}], counted).injected


@pytest.mark.parametrize(("tps", "slept"), [(170, False), (190, True), (650, True), (670, False)])
def test_a_wait_is_a_part_of_a_transaction(tps: float, slept: bool) -> None:
    """Six clients whose changes wait for 10 ms: a run whose changes took 2.6 ms was proven by an old list."""
    rows = [{"kind": "slept", "wait_us": 10000, "threads": 6}]
    assert prove(rows, evidence({}, steady=True, tps=lambda _: tps)).injected is slept


def test_lost_packets_and_pauses_are_proven_by_the_kernel_and_the_servers_clock() -> None:
    """Of 8 clients 2 are in statements; 20 probed losses a second hold 4; not without a dropped packet."""
    counters = {"server.statement_s": lambda t: 2.0 * t, "tcp.probed_losses": lambda t: 20.0 * t}
    expected = [{"kind": "outside", "threads": 8, "share_min": 0.2}]
    lossy = evidence({**counters, "netfilter.dropped": lambda t: 15.0 * t}, tps=lambda t: 100 if t <= 10 else 20)
    proof = prove(expected, lossy)
    assert proof.injected
    assert proof.measured["held_ratio"] == pytest.approx(0.5)
    assert proof.measured["outside_share"] == pytest.approx(0.75)
    assert not prove(expected, evidence(counters, tps=lambda t: 100 if t <= 10 else 20)).injected


def test_a_cause_that_acted_before_the_window_is_no_step() -> None:
    acting = evidence({"server.statement_s": lambda t: t}, tps=lambda _: 100)
    early = dataclasses.replace(acting, phases=[(acting.window_s[0], acting.window_s[1])])
    assert "it acted from before the window on" in prove([], early).missing


def test_states_of_sessions_and_counters_of_the_server_prove_what_acts_inside_it() -> None:
    held_value = evidence(
        {"sessions.locked": lambda t: 8.0 * (t >= 10), "status.Sort_merge_passes": lambda t: 30 * t}
    )
    expected: list[dict[str, Any]] = [{"kind": "sessions", "of": "locked", "min": 3}]
    expected.append({"kind": "counter", "of": "status.Sort_merge_passes", "min": 20})
    proof = prove(expected, held_value)
    assert proof.injected
    assert proof.measured["sessions.locked"] == pytest.approx(8)
    free = evidence({"sessions.locked": lambda _: 0.0, "status.Sort_merge_passes": lambda _: 5.0})
    assert prove(expected, free).missing == (
        "sessions.locked was 0",
        "status.Sort_merge_passes grew by 0 a second",
    )
    assert not prove([{"kind": "mean", "of": "client.stopped", "min": 0.1}], free).injected, "was not counted"


def test_scores_by_family_count_what_is_proven_and_mark_left_out_families() -> None:
    """One right, one wrong and sure, one of two causes, and one whose cause did not act."""
    runs = [
        run("storage.stall", finding("storage.stall"), family="stands"),
        run("storage.read_latency", finding("none", 0.95), family="regions"),
        run("storage.read_latency", finding("storage.read_latency", 0.5, "one of two"), family="regions"),
        run("storage.read_latency", finding("none"), family="regions", missing=("no effect",)),
    ]
    page_of_families = families.page(runs, "Idle.")
    assert "| stands | yes | 1 | 1 | 1 of 1 | 1 of 1 | 0 of 1 | 0 of 1 |" in page_of_families
    assert "| regions | no | 3 | 2 | 1 of 2 | 0 of 1 | 1 of 2 | 1 of 2 |" in page_of_families
    assert "| **left out** |  | 3 | 2 |" in page_of_families
