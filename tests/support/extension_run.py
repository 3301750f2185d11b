"""A run of a suite through plan, execution, record, report and documentation, without a server.

`python extension_run.py SUITE DIRECTORY` prints as JSON what each of these made of the suite. The target launches
no agent: it runs each cell's steps and samplers in this process, on a directory of its own.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from fake_target import FakeTarget, FakeVolume
from generated import generated_files
from step_context import context_on

from volbench.core.plan.cost import estimate
from volbench.core.plan.new_run import plan_run
from volbench.core.profile.spec import parse_volume
from volbench.core.records.cell import CellSpec, PreparedTemplate
from volbench.core.records.steps import Step
from volbench.core.suite.load import load_suite
from volbench.machine.host.host import host_facts
from volbench.machine.placement.interface import Job
from volbench.measure.execute.cell.agent import finish, run_steps
from volbench.measure.execute.cell.cell_run import CellRun
from volbench.measure.execute.cell.recorder import CellRecorder, recording
from volbench.measure.execute.cell.sampling import sampling
from volbench.measure.execute.run import Orchestrator
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.workload.interface import StepContext
from volbench.results.explain.run import explain_run
from volbench.results.report.render import write_reports
from volbench.results.report.views.panels import chosen_series
from volbench.results.store.files import write_record
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import SERIES_FILE, TEMPLATE_FILE, RunDirectory
from volbench.results.store.series import read_series


class FileCell(CellRun):
    """A cell without a server, on a directory of its own."""

    def __init__(self, cell: CellSpec, out: Path, record: CellRecorder, directory: Path) -> None:
        context, _ = context_on(directory)
        super().__init__(cell, out, record, volume_facts=context.volume_facts)
        self._steps_context = replace(context, clock=self.builder.clock, record=record)

    def serving(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start(self) -> None:
        pass

    def context(self) -> StepContext:
        return self._steps_context

    def is_discarded_after(self, step: Step) -> bool:  # noqa: ARG002
        return False

    def end(self) -> None:
        pass

    def sampling_config(self) -> SamplingConfig:
        return SamplingConfig(
            raw_file=str(self.out / "raw/samples.jsonl"),
            zero_monotonic_ns=self.builder.clock.zero_monotonic_ns,
            interval_s=self.cell.sampling.interval_s,
            disks=("toy",),
            sources=self.cell.sampling.sources,
        )


@dataclass
class MeasuringTarget(FakeTarget):
    """Runs each cell at once: real workloads and samplers, no server."""

    work: Path = field(default_factory=Path)

    def write_result(self, job: Job) -> None:
        directory = self.work / job.cell.cell_id
        directory.mkdir(parents=True)
        with recording(job.out) as record:
            run = FileCell(job.cell, job.out, record, directory)
            if job.kind == "run":
                with run.serving(), sampling(run):
                    run_steps(run)
        if job.kind == "prepare":
            write_record(job.out / TEMPLATE_FILE, PreparedTemplate(key="k", bytes=1, reused=True))
        finish(run)


def main(suite_file: Path, directory: Path) -> None:
    """Print what became of the suite."""
    suite, text = load_suite(suite_file)
    volumes = [parse_volume(f"{name}=path:{directory / name}") for name in ("a", "b")]
    record = plan_run(
        run_id="20260101T000000Z-extension-0a1b2c",
        started_at="2026-01-01T00:00:00Z",
        suite=suite.resolved(),
        suite_source=text,
        volumes=volumes,
        target="local",
        target_options={},
        command=["volbench", "run"],
        host=host_facts(),
    )
    cost = estimate(record.suite, volumes=len(volumes))
    run = RunDirectory.create(directory / "results", record)
    outcome = Orchestrator(
        run,
        MeasuringTarget(results={}, work=directory / "work"),
        {volume.name: FakeVolume(volume) for volume in volumes},
        on_message=lambda _text: None,
    ).run()
    report, files = write_reports(run)
    explanation = explain_run(load_run(run))
    cell = run.cell_dir(record.cells[0].cell_id)
    series = read_series(cell / SERIES_FILE)
    answer = {
        "measured_s": cost.measured_s,
        "exit_code": outcome.exit_code,
        "failures": [str(result.failure) for result in run.results() if result.failure],
        "sources": {source.source: source.reason for source in run.results()[0].sources},
        "metrics": sorted({row.metric for row in report.comparisons if row.primary}),
        "markdown": next(path for path in files if path.suffix == ".md").read_text(),
        "html": next(path for path in files if path.suffix == ".html").read_text(),
        "explained": sorted({step for _, step in explanation.views}),
        "causes": sorted({finding.cause for finding in report.findings}),
        "device": sorted({line for line, key in chosen_series(series, None) if key.source not in {"cpu", "psi"}}),
        "pages": {str(path): text for path, text in generated_files()},
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
