"""A run of volbench for tests: its metrics, causes and verdict, as values to assert on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import statistics
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volbench import api
from volbench.api import Run
from volbench.core.base import safe_files
from volbench.core.profile.layout import split_layout
from volbench.core.profile.spec import KINDS, parse_volume
from volbench.core.records.goals.gate import Decision, Gate
from volbench.core.records.goals.policy import POLICY_SCHEMA
from volbench.core.suite.policy import check_policy
from volbench.errors import (
    UsageError,
    VolbenchError,
)
from volbench.results.gate.gate import gate_report
from volbench.results.report.formats.gate import render_gate
from volbench.results.stats.sign_test import binomial_tail
from volbench.results.store.run_directory import RunDirectory
from volbench.testing.leftovers import private_directory
from volbench.testing.volumes import MountedVolume

RUN_S_MAX = 3600.0
CI_LEVEL = 0.95
LINES_MAX = 40
"""Lines of a run's output that an error shows."""
_LOCK = "testing-runs.lock"
"""In this user's cache, whatever VOLBENCH_CACHE a session has; nobody else can hold it."""
VolumeOfRun = str | Path | MountedVolume


@dataclass(frozen=True, kw_only=True)
class MetricSummary:
    """One metric of one volume and step over the valid cells of a run.

    Args:
        values: of the cells, in the order of the run.
        unit: of the values.
    """

    name: str
    volume: str
    step: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the cells."""
        return statistics.median(self.values)

    @property
    def ci(self) -> tuple[float, float] | None:
        """An interval for the median with at least 95 % confidence; None below six cells, where there is none.

        Between two order statistics, for any distribution: Conover, Practical Nonparametric Statistics,
        section 3.2.
        """
        cells = len(self.values)
        ranks = [rank for rank in range(cells // 2) if 2 * binomial_tail(cells, cells - rank) <= 1 - CI_LEVEL]
        if not ranks:
            return None
        ordered = sorted(self.values)
        return ordered[ranks[-1]], ordered[-1 - ranks[-1]]


@dataclass(frozen=True, kw_only=True, repr=False)
class GateResult:
    """The decision on a run by conditions; true only where it is a go."""

    gate: Gate = field(repr=False)

    @property
    def decision(self) -> Decision:
        """`go`, `no-go`, or `undecided`: the cells decide neither."""
        return self.gate.decision

    def __bool__(self) -> bool:
        return self.decision == "go"

    def __repr__(self) -> str:
        return render_gate(self.gate, "text")


class MeasuredRun(Run):
    """A run's results: all of `volbench.open`, and what tests assert on."""

    @property
    def verdict(self) -> str:
        """`candidate_better`, `candidate_worse`, `equivalent`, `mixed`, `inconclusive` or `single_volume`."""
        return self.summary.verdict

    def metric(self, name: str, *, volume: str | None = None, step: str | None = None) -> MetricSummary:
        """Return one metric of one volume and step.

        Args:
            name: of results/README.md, such as "tps" or "latency_ms_p95".
            volume, step: names; None: the only ones that have the metric.

        Raises UsageError where no cell has it, or several volumes or steps do.
        """
        rows = [
            (cell.volume, cell.step, cell.metrics[name])
            for cell in self.report.cells
            if cell.valid and name in cell.metrics and volume in (None, cell.volume) and step in (None, cell.step)
        ]
        groups = list(dict.fromkeys(row[:2] for row in rows))
        if len(groups) != 1:
            raise self._not_one(name, groups)
        return MetricSummary(
            name=name,
            volume=groups[0][0],
            step=groups[0][1],
            unit=rows[0][2].unit,
            values=tuple(row[2].value for row in rows),
        )

    def gate(self, *conditions: str, confidence: float = 0.95) -> GateResult:
        """Decide conditions as `volbench gate` does: "p95 <= 20 ms", "valid cells >= 5", "finding X absent", ...

        Args:
            conditions: of suites/policies/README.md; all have to hold.
            confidence: of each decision. Below five cells nothing is decided at 0.95.

        Raises UsageError for a condition that cannot be read.
        """
        text = _policy_text(conditions, confidence)
        loaded = check_policy(text, name="the test's conditions")
        return GateResult(
            gate=gate_report(
                self.report, loaded.policy, policy_text=text, origins=loaded.origins, where=loaded.name
            )
        )

    def _not_one(self, name: str, groups: Sequence[tuple[str, str]]) -> UsageError:
        if groups:
            return UsageError(
                f"not one volume and step has {name}, but {len(groups)}",
                where=str(self.path),
                evidence=", ".join(f"{step} on {volume}" for volume, step in groups),
                next_step="name one by volume= and step=",
            )
        invalid = [f"{cell.cell_id}: {'; '.join(cell.invalid_reasons)}" for cell in self.report.cells]
        measured = sorted({metric for cell in self.report.cells for metric in cell.metrics})
        return UsageError(
            f"no valid cell has {name}",
            where=str(self.path),
            evidence=f"cells have {', '.join(measured) or 'no metric'}; {' '.join(invalid)[:500]}",
        )


def run_suite(
    suite: str | Path,
    volumes: Mapping[str, VolumeOfRun],
    *,
    settings: Mapping[str, object] | None = None,
    target: str = "auto",
    results: Path | None = None,
    timeout_s: float = RUN_S_MAX,
) -> MeasuredRun:
    """Run a suite as `volbench run` does, and return its results. Runs of one machine wait for each other.

    Args:
        suite: a suite's file, or a shipped one such as "suites/quick.yaml".
        volumes: name to SPEC, directory or emulated volume; the first is the baseline.
        settings: keys of the suite, such as {"repeats": 3, "steps.0.duration": "5s"}.
        target: auto, local or docker.
        results: where the run's directory goes; None: a new directory, which stays.
        timeout_s: for the run, without the time that it waits for others.

    Raises what `volbench.run` raises, with the last lines of the run's output as a note.
    """
    if not volumes:
        raise UsageError("a run needs a volume", where="run_suite", next_step='volumes={"a": "path:/mnt/a"}')
    results = results or Path(tempfile.mkdtemp(prefix="volbench-results-"))
    lines: deque[str] = deque(maxlen=LINES_MAX)
    with _alone_on_this_machine(), private_directory() as directory:
        specs = {name: _spec_of(volume, directory) for name, volume in volumes.items()}
        try:
            run = api.run(
                suite,
                specs,
                settings=settings,
                target=target,
                results=results,
                progress=lines.append,
                time_limit_s=timeout_s,
            )
        except VolbenchError as error:
            error.add_note("\n".join(lines))  # pytest shows it below the error
            raise
    return MeasuredRun(RunDirectory.open(run.path))


def _spec_of(volume: VolumeOfRun, directory: Path) -> str:
    """Return a SPEC for the command; emulated volumes of different tests must not share a directory."""
    if isinstance(volume, MountedVolume):
        return f"path:{volume.path}"
    if isinstance(volume, Path):
        return f"path:{volume.absolute()}"
    if components := split_layout(volume, KINDS):
        return ",".join(f"{component.name}:{_spec_of(component.spec, directory)}" for component in components)
    spec = parse_volume(volume, name="v")
    if spec.kind != "emulated" or "dir" in spec.options:
        return volume
    return f"{volume}{'&' if spec.options else '?'}dir={directory}"


@contextlib.contextmanager
def _alone_on_this_machine() -> Iterator[None]:
    """Wait for the runs of other test processes, which would disturb this one's figures."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volbench"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = safe_files.open_own(cache / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _policy_text(conditions: Sequence[str], confidence: float) -> str:
    """Return a policy file of these conditions; JSON strings are YAML's."""
    return json.dumps({"schema": POLICY_SCHEMA, "confidence": confidence, "conditions": list(conditions)})
