"""What one run shows: what was made, the proof of it, and the findings of its report.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from causes.conditions import FOREVER_S
from causes.counters import read_counters
from causes.evidence import Evidence
from causes.proof import Proof, prove
from causes.runner import COUNTERS_FILE, DONE_FILE, RESULTS, SETUP_FILE, STEP
from explain.observed import read_places, report_of
from score_files import rounded
from volbench.core.records.cell import CellResult
from volbench.errors import VolbenchError
from volbench.results.store.run_directory import SERIES_FILE, RunDirectory
from volbench.results.store.series import read_series

TRUTH_FILE = "truth.json"
CPU_WAIT_DISTURBING = 0.25
"""Where sessions wait for a CPU for this share of their time, the machine's other work slowed them as well."""
CPU_WAIT_CLEAN = 0.5
"""Where a clean load had no CPU for this share of the time that it wanted one, CPUs may be named."""
OTHERS_MOST = 0.5
"""From here on others had more of the CPUs that the server's threads wanted than these."""
OTHERS = "interference.cpu"
CPU = ("cpu.server_saturated", "cpu.steal", OTHERS)
_BURNERS = "cpu.server_saturated|cpu.steal"
"""The truth of runs with burners before volbench had a name for others on the CPUs."""
_NEIGHBOURS = "neighbour-cpu"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of a report: its place in the ranking is its place in the list."""

    cause: str
    confidence: float | None
    share: float | None
    window_s: tuple[float, float] | None
    checks: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the lab, read with the rules as they are now."""

    condition: str
    family: str
    shape: str
    number: int
    lab_seed: int
    truth: tuple[str, ...]
    accepted: tuple[str, ...]
    drawn: Mapping[str, Any]
    place: str
    wall_s: float
    failure: str
    missing: tuple[str, ...]
    onset_s: float | None
    cap_of: str
    measured: Mapping[str, float]
    findings: tuple[Finding, ...]
    invalid_reasons: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def injected(self) -> bool:
        """Whether it counts: it ran, and counters prove its cause."""
        return not self.failure and not self.missing

    @property
    def name(self) -> str:
        """Condition and number."""
        return f"{self.condition}/{self.number}"


def read_runs(root: Path, *, without: str = "") -> list[Run]:
    """All runs that are done below a directory, their findings made anew.

    Args:
        without: a source of samples that the rules are not shown.
    """
    return [observe(done.parent, without=without) for done in sorted(root.glob(f"seed-*/*/*/{DONE_FILE}"))]


def observe(entry: Path, *, without: str = "") -> Run:
    """One run; writes its truth.json."""
    setup = json.loads((entry / SETUP_FILE).read_text(encoding="utf-8"))
    done = json.loads((entry / DONE_FILE).read_text(encoding="utf-8"))
    failure, proof, report, cells = done["failure"], Proof(), None, list[Any]()
    directory = _directory(entry)
    if directory is None:
        failure = failure or "there is no run directory"
    elif not failure:
        try:
            (result,) = directory.results()
            if not result.steps:
                failure = f"no step was measured: {result.failure.message if result.failure else 'no reason given'}"
            else:
                proof = prove(setup["proof"], evidence_of(setup, done, directory, result, entry))
                report = report_of(directory, without)
                cells = [
                    cell for cell in report["cells"] if cell["step"] == STEP or cell["step"].startswith(f"{STEP}/")
                ]
        except (VolbenchError, ValueError, OSError) as error:
            failure = f"{type(error).__name__}: {error}"
    accepted = tuple(setup["accepted"]) + accepted_others(proof.measured)
    pinned = any("cpuset" in spec for spec in setup["inject"])
    setup = {**setup, "truth": [by_account(truth, proof.measured, pinned=pinned) for truth in setup["truth"]]}
    if setup["truth"] == ["none"]:
        accepted += CPU if proof.measured.get("cpu_wait_ratio", 0.0) >= CPU_WAIT_CLEAN else ()
    else:
        proof = undisturbed(proof, setup)
    truth = {**setup, "accepted": accepted, "injected": not failure and proof.injected, "failure": failure}
    truth |= {"missing": proof.missing, "onset_s": proof.onset_s, "measured": proof.measured}
    (entry / TRUTH_FILE).write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return Run(
        condition=setup["condition"],
        family=setup["family"],
        shape=setup["shape"],
        number=setup["number"],
        lab_seed=setup["lab_seed"],
        truth=tuple(_knowable(truth) for truth in setup["truth"]) if without else tuple(setup["truth"]),
        accepted=accepted,
        drawn=setup["drawn"],
        place=str(entry),
        wall_s=done["wall_s"],
        failure=failure,
        missing=proof.missing,
        onset_s=proof.onset_s,
        cap_of=cap_of(setup["proof"]),
        measured=proof.measured,
        findings=() if report is None else tuple(finding_of(row) for row in report["findings"]),
        invalid_reasons=tuple(reason for cell in cells for reason in cell["invalid_reasons"]),
        metrics={name: value["value"] for cell in cells for name, value in cell["metrics"].items()},
    )


def by_account(truth: str, measured: Mapping[str, float], *, pinned: bool = False) -> str:
    """Whose CPU time it was, by what the lab counted; truths without CPUs as they are.

    Args:
        truth: as it was written down before volbench had a name for others on the CPUs.
        measured: what the lab counted.
        pinned: the server was held to some CPUs, which others used as well: both names are right.
    """
    by_others = measured.get("others_cpu_ratio", 0.0) >= OTHERS_MOST
    if truth == _BURNERS:
        return OTHERS if by_others and not pinned else f"{OTHERS}|cpu.server_saturated"
    names = truth.split("|")
    neighbour = len(names) > 1 and "cpu.server_saturated" in names and OTHERS not in names
    return f"{truth}|{OTHERS}" if neighbour and by_others else truth


def accepted_others(measured: Mapping[str, float]) -> tuple[str, ...]:
    """Others on the CPUs, where the lab's own counters prove them: the machine is never this lab's alone.

    They had most of the CPUs that the server's threads wanted, and these waited longer than they ran.
    """
    waited = measured.get("window_cpu_wait_ratio", 0.0) >= CPU_WAIT_CLEAN
    return (OTHERS,) if waited and measured.get("window_others_cpu_ratio", 0.0) >= OTHERS_MOST else ()


def undisturbed(proof: Proof, setup: Mapping[str, Any]) -> Proof:
    """Not proven where the CPUs that others used slowed the load as well, unless CPUs are the cause."""
    share = proof.measured.get("cpu_wait_s_per_s", 0.0) / int(setup["drawn"].get("threads", 1))
    if share < CPU_WAIT_DISTURBING or any(cause in truth for truth in setup["truth"] for cause in CPU):
        return proof
    return dataclasses.replace(
        proof, missing=(*proof.missing, f"sessions waited for CPUs in {share:.0%} of their time")
    )


def evidence_of(
    setup: Mapping[str, Any], done: Mapping[str, Any], directory: RunDirectory, result: CellResult, entry: Path
) -> Evidence:
    """Counters, phases and series on the cell's clock."""
    zero_s = result.zero_monotonic_ns / 1e9
    begin_s, end_s = next(step for step in result.steps if step.step.partition("/")[0] == STEP).window_s
    series = read_series(directory.cell_dir(result.cell_id) / SERIES_FILE)
    is_steady = setup["shape"] == "steady"
    return Evidence(
        counters=[(t_s - zero_s, values) for t_s, values in read_counters(entry / COUNTERS_FILE)],
        phases=[(begin_s, end_s)] if is_steady else _acted(done, zero_s, begin_s, end_s),
        window_s=(begin_s, end_s),
        series={
            (key.source, key.metric): (np.asarray(item.t_s), np.asarray(item.value)) for key, item in series.items()
        },
        is_steady=is_steady,
        cpus=result.host.cpus or 1,
    )


def _knowable(truth: str) -> str:
    """Who is not shown the limits of a group can know that time is lost above the device, and not why."""
    return f"{truth}|host.io_wait" if truth == "host.io_limit" else truth


def _acted(done: Mapping[str, Any], zero_s: float, begin_s: float, end_s: float) -> list[tuple[float, float]]:
    """When the first injector was really on, within the window."""
    first = done["actions"][0]["injector"] if done["actions"] else ""
    phases: list[tuple[float, float]] = []
    for action in done["actions"]:
        at_s = action["monotonic_ns"] / 1e9 - zero_s
        if action["injector"] == first and action["switched_on"]:
            phases.append((at_s, FOREVER_S))
        elif action["injector"] == first and phases:
            phases[-1] = (phases[-1][0], at_s)
    return [(max(on_s, begin_s), min(off_s, end_s)) for on_s, off_s in phases if on_s < end_s]


def cap_of(proof: Sequence[Mapping[str, Any]]) -> str:
    """What is capped, `read iops` or `write mib`; empty: nothing."""
    for row in proof:
        if row["kind"] == "rate":
            return "read mib"
        if row["kind"] == "limit":
            method = "read" if ".Read." in row["of"] else "write"
            return f"{method} {'mib' if 'limit_mib' in row else 'iops'}"
    return ""


def finding_of(row: Mapping[str, Any]) -> Finding:
    """A row of report.json's findings."""
    window = row.get("window_s")
    evidence = {item["metric"]: item["value"] for item in row["evidence"]}
    return Finding(
        cause=row["cause"],
        confidence=row.get("confidence"),
        share=row.get("share"),
        window_s=None if window is None else (window[0], window[1]),
        checks=str(evidence.get("checks", "")),
        evidence=evidence,
    )


def emulated_runs(root: Path) -> list[Run]:
    """Runs of the lab with the emulator, one family of mechanisms among others, read without the volume's counters.

    Nothing is written below `root`.
    """
    return [
        Run(
            condition=item.condition,
            family="emulator",
            shape="",
            number=item.number,
            lab_seed=item.lab_seed,
            truth=(f"{OTHERS}|cpu.server_saturated",) if item.condition == _NEIGHBOURS else item.truth,
            accepted=item.accepted,
            drawn=item.drawn,
            place=item.run_id,
            wall_s=item.wall_s,
            failure=item.failure,
            missing=(),
            onset_s=None,
            cap_of=_EMULATED_CAPS.get(next(iter(item.truths), ""), ""),
            measured={"cap": next(iter(item.truths.values()))}
            if next(iter(item.truths), "") in _EMULATED_CAPS
            else {},
            findings=tuple(
                Finding(
                    cause=named.cause,
                    confidence=named.confidence,
                    share=named.share,
                    window_s=named.window_s,
                    checks=str(named.evidence.get("checks", "")),
                    evidence=named.evidence,
                )
                for named in item.named
            ),
            invalid_reasons=item.invalid_reasons,
            metrics=item.metrics,
        )
        for item in read_places(root, without="emulator")
    ]


_EMULATED_CAPS = {"iops": "all iops", "throughput": "all mib"}


def as_data(run: Run) -> dict[str, Any]:
    """For lab.json."""
    data: dict[str, Any] = rounded(dataclasses.asdict(run))
    return data


def run_from(data: Mapping[str, Any]) -> Run:
    """The run of lab.json."""
    lists = {name: tuple(data[name]) for name in ("truth", "accepted", "missing", "invalid_reasons")}
    findings = tuple(
        Finding(**{**finding, "window_s": None if finding["window_s"] is None else tuple(finding["window_s"])})
        for finding in data["findings"]
    )
    return Run(**{**data, **lists, "findings": findings})


def _directory(directory: Path) -> RunDirectory | None:
    paths = sorted((directory / RESULTS).glob("*-lab-*")) if (directory / RESULTS).is_dir() else []
    return RunDirectory.open(paths[-1]) if paths else None
