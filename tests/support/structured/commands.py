"""Rows: a changed file of a run, an observation or a recording, and a whole command whose outputs are judged."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

import synthetic_run
from fuzzed import BY_NAME, recordings, sources
from fuzzed.inputs import PLAN
from fuzzed.reader import Mutate, Reader, files, texts

import volbench
from structured import values
from structured.outputs import CHECKS, check_controls
from volbench.cli import main
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import (
    EXIT_ENVIRONMENT,
    EXIT_NO_GO,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNDECIDED,
    EXIT_USAGE,
    VolbenchError,
)
from volbench.results.report.build import build_report
from volbench.results.report.formats import validation
from volbench.results.report.render import render

DOCUMENTED = frozenset({EXIT_OK, EXIT_NO_GO, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_REFUSED, EXIT_UNDECIDED})
CPU_S = 12.0
POLICY = """schema: 2
name: move
policy:
  - valid cells >= 1
  - latency_ms_p95 <= 50 ms
  - candidate not worse than current by > 10 %
  - finding storage.stall absent
"""


class BadEnd(AssertionError):
    """A command that ended otherwise than docs/troubleshooting.md says."""


def _reraised(error: Exception) -> NoReturn:
    raise error


def execute(directory: Path, *arguments: str) -> tuple[int, str]:
    """Run a command in a directory; return its exit code and output. Raise BadEnd, BadOutput, or its crash."""
    before = os.getcwd()  # noqa: PTH109 - one of the many calls of a campaign
    output, messages = io.StringIO(), io.StringIO()
    crash, main._crash = main._crash, _reraised
    argv, sys.argv = sys.argv, ["volbench", *arguments]
    os.chdir(directory)
    try:
        with redirect_stdout(output), redirect_stderr(messages):
            main.main()
    except SystemExit as end:
        code = end.code
    finally:
        os.chdir(before)
        main._crash, sys.argv = crash, argv
    if code not in DOCUMENTED:
        raise BadEnd(f"exit code {code}: {messages.getvalue()[-300:]}")
    result = messages.getvalue()
    if "Traceback" in result or "fault of volbench" in result:
        raise BadEnd(result[-300:])
    if code == EXIT_USAGE and result.count("volbench:") + result.count("Usage:") != 1:
        raise BadEnd(f"not one message: {result[-300:]}")
    check_controls(result, "messages")
    return code, output.getvalue()


def _linked(source: str, target: str) -> None:
    """Commands replace files and never write into them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


@cache
def _runs() -> Path:
    """Results with a run of four short cells and its report, and a smaller run that nobody changes."""
    location = sources._directory("volbench-fuzz-results-")
    spec = synthetic_run.Synthetic(
        volumes=(synthetic_run.SyntheticVolume(name="a"), synthetic_run.SyntheticVolume(name="b", speed=2)),
        repeats=2,
        steps=(
            OltpStep(name="load", warmup_s=1, duration_s=5),
            DumpStep(name="dump"),
            ColdReadStep(name="cold"),
        ),
    )
    small = synthetic_run.Synthetic(
        volumes=spec.volumes, repeats=1, steps=(OltpStep(name="load", warmup_s=1, duration_s=3),)
    )
    for run_id, of_run in ((CHANGED, spec), (SOUND, small)):
        directory = synthetic_run.build_run(location, of_run, run_id=run_id)
        report = build_report(directory)
        (directory.path / "report.json").write_text(render(report, directory, "json"))
    return location


CHANGED, SOUND = "20260302T093000Z-changed-0a1b2c", "20260302T093000Z-sound-0a1b2c"


@contextmanager
def _results_with(path: Path, name: str) -> Iterator[Path]:
    """Results in which a file takes the place of the first of that name."""
    results = path.parent / "results"
    shutil.copytree(_runs(), results, copy_function=_linked)
    target = min((results / CHANGED).glob(name))
    target.unlink()
    path.replace(target)
    yield results


def _run_command(name: str, arguments: Sequence[str], check: str, path: Path) -> None:
    with _results_with(path, name) as results:
        (path.parent / "policy.yaml").write_text(POLICY)
        _, output = execute(path.parent, *arguments)
        CHECKS[check](output) if output.strip() else None
        for written in (*results.glob(f"{CHANGED}/report.*"), *(path.parent / "site").rglob("*.*")):
            format_name = {".html": "html", ".md": "md", ".xml": "junit"}.get(written.suffix)
            if format_name:
                CHECKS[format_name](written.read_text(encoding="utf-8", errors="surrogateescape"))


def _in_python(name: str, path: Path) -> None:
    with _results_with(path, name) as results:
        try:
            run = volbench.open(results / CHANGED)
            len(run.metrics()), len(run.series()), run.findings, run.compare("tps"), run.summary
            CHECKS["html"](run.render("html"))
        except VolbenchError:
            return


RUN = f"results/{CHANGED}"
RUN_COMMANDS: Mapping[str, tuple[Sequence[str], str]] = {
    "report": (("report", RUN), "text"),
    "report html": (("report", RUN, "--format", "html"), "html"),
    "report md": (("report", RUN, "--format", "md"), "md"),
    "report csv": (("report", RUN, "--format", "csv"), "csv"),
    "report junit": (("report", RUN, "--format", "junit"), "junit"),
    "report json": (("report", RUN, "--json", "--what-if", "ebs-gp3?iops=6000"), "json"),
    "explain": (("explain", RUN), "text"),
    "explain json": (("explain", RUN, "--json"), "json"),
    "compare": (("compare", RUN), "text"),
    "compare runs": (("compare", RUN, f"results/{SOUND}", "--by", "run", "--json"), "json"),
    "list": (("list",), "text"),
    "list json": (("list", "--json"), "json"),
    "query csv": (("query", "SELECT * FROM all_metrics", "--format", "csv"), "csv"),
    "query md": (("query", "SELECT * FROM cells JOIN runs USING (run_id)", "--format", "md"), "md"),
    "query table": (("query", "SELECT * FROM comparisons", "--format", "table"), "text"),
    "query json": (("query", "SELECT metric, count(*), avg(value) FROM series GROUP BY ALL", "--json"), "json"),
    "query bins": (("query", "SELECT step, sum(events), count(*) FROM histograms GROUP BY ALL", "--json"), "json"),
    "query budgets": (
        ("query", "SELECT * FROM time_budgets, time_differences LIMIT 50", "--format", "vertical"),
        "text",
    ),
    "site": (("site", "results", "--out", "site", "--pair", f"{SOUND}..{CHANGED}"), "text"),
    "gate": (("gate", RUN, "--policy", "policy.yaml"), "text"),
    "gate md": (("gate", RUN, "--policy", "policy.yaml", "--format", "md"), "md"),
    "gate junit": (("gate", RUN, "--policy", "policy.yaml", "--format", "junit"), "junit"),
    "gate html": (("gate", RUN, "--policy", "policy.yaml", "--format", "html"), "html"),
    "gate json": (("gate", RUN, "--policy", "policy.yaml", "--json"), "json"),
    "credits": (("credits", "--profile", "ebs-gp2", "--size", "50GiB", "--from", f"{RUN}/cells/001-a-r1"), "text"),
}
"""Command on a run -> its arguments and the format of its output."""
RUN_FILES: Mapping[str, tuple[str, Mutate]] = {
    "run.json": ("run.json", values.typed_json),
    "result.json": ("cells/*/result.json", values.typed_json),
    "journal": ("journal.jsonl", values.typed_lines),
    "series": ("cells/*/series.parquet", values.typed_table),
    "histograms": ("cells/*/histograms.parquet", values.typed_table),
    "report.json": ("report.json", values.typed_json),
}
READ_BY: Mapping[str, Sequence[str]] = {
    "report.json": ("list", "list json", "query csv", "query table", "query budgets", "site"),
    "series": ("report", "report html", "report json", "explain", "explain json", "query json", "credits"),
    "histograms": ("report", "report html", "report json", "explain", "query bins"),
    "journal": ("report", "report md", "report json", "explain", "list json", "gate"),
}
"""Which commands read a file, where not all of them do."""


def _of_run(name: str) -> bytes:
    return min((_runs() / CHANGED).glob(name)).read_bytes()


def _rows_of_runs() -> Iterator[Reader]:
    for file, (pattern, mutate) in RUN_FILES.items():
        seeds = cache(partial(lambda name: (_of_run(name),), pattern))
        for command in READ_BY.get(file, tuple(RUN_COMMANDS)):
            arguments, check = RUN_COMMANDS[command]
            yield Reader(
                name=f"{file}: {command}",
                read=partial(_run_command, pattern, arguments, check),
                seeds=seeds,
                share=6,
                mutate=mutate,
                refusals=(),
                cpu_s=CPU_S,
            )
        yield Reader(
            name=f"{file}: Python",
            read=partial(_in_python, pattern),
            seeds=seeds,
            share=6,
            mutate=mutate,
            refusals=(),
            cpu_s=CPU_S,
        )


# Observations, recordings, what a user writes


def _observed(name: str, path: Path) -> None:
    parent = path.parent / "o"
    shutil.copytree(sources._observation(), parent)
    path.replace(min(parent.glob(name)))
    _, output = execute(path.parent, "observe", "report", "o", "--json")
    CHECKS["json"](output) if output else None
    for suffix in ("html", "md"):
        if (written := parent / f"report.{suffix}").exists():
            CHECKS[suffix](written.read_text())


def _recorded(arguments: Sequence[str], check: str, file: str, path: Path) -> None:
    parent = path.parent / "recorded"
    parent.mkdir()
    path.replace(parent / file)
    _, output = execute(path.parent, *arguments)
    CHECKS[check](output) if output.strip() else None


EXPLAIN = (("explain", "--from", "recorded"), "text"), (("explain", "--from", "recorded", "--json"), "json")
CREDITS = ("credits", "--profile", "ebs-gp2", "--size", "50GiB", "--read-share", "50%", "--from", "recorded/in")
HISTORY = ((CREDITS, "text"), ((*CREDITS, "--dump", "3.6GB", "--window", "4h", "--json"), "json"))
Seeds = Callable[[], Sequence[bytes]]
RECORDINGS: Mapping[str, tuple[Seeds, Mutate, str]] = {
    "iostat": (BY_NAME["iostat"].seeds, values.typed_text, "in.txt"),
    "iostat-json": (texts(recordings.IOSTAT_JSON), values.typed_json, "in.json"),
    "sar": (
        lambda: (recordings.SAR_ALL.encode(), *files("tests/fixtures/sar/*.txt")()),
        values.typed_text,
        "in.txt",
    ),
    "sysbench": (texts(recordings.SYSBENCH), values.typed_text, "in.log"),
    "cloudwatch": (texts(recordings.CLOUDWATCH, recordings.STATISTICS), values.typed_json, "in.json"),
    "pt-diskstats": (files("tests/fixtures/pt-diskstats/*.txt", bytes_max=2_500), values.typed_text, "in.txt"),
}
HISTORIES: Mapping[str, tuple[Seeds, Mutate, str]] = {
    "csv": (BY_NAME["history-csv"].seeds, values.typed_text, "in.csv"),
    "json": (BY_NAME["history-json"].seeds, values.typed_json, "in.json"),
    **{name: RECORDINGS[name] for name in ("sar", "iostat", "cloudwatch")},
}


def _rows_of_recordings() -> Iterator[Reader]:
    for name, (seeds, mutate, file) in RECORDINGS.items():
        for arguments, check in EXPLAIN:
            yield Reader(
                name=f"{name}: explain {check}",
                read=partial(_recorded, arguments, check, file),
                seeds=seeds,
                share=10,
                mutate=mutate,
                refusals=(),
                cpu_s=CPU_S,
            )
    for name, (seeds, mutate, file) in HISTORIES.items():
        for result, check in HISTORY:
            replaces = [term.replace("recorded/in", f"recorded/{file}") for term in result]
            yield Reader(
                name=f"history {name}: credits {check}",
                read=partial(_recorded, replaces, check, file),
                seeds=seeds,
                share=10,
                mutate=mutate,
                refusals=(),
                cpu_s=CPU_S,
            )
    for name, pattern, mutate in (
        ("observation.json", "observation.json", values.typed_json),
        ("incident.json", "incidents/*/incident.json", values.typed_json),
        ("ring", "ring/*", values.typed_lines),
    ):
        yield Reader(
            name=f"{name}: observe report",
            read=partial(_observed, pattern),
            seeds=sources._of_observation(pattern),
            share=10,
            mutate=mutate,
            refusals=(),
            cpu_s=CPU_S,
        )


def _written(arguments: Sequence[str], check: str, path: Path) -> None:
    """A file that a user writes, by its name among the arguments."""
    if "RUN" in arguments:
        shutil.copytree(_runs(), path.parent / "results", copy_function=_linked)
    gets = [{"FILE": path.name, "RUN": f"results/{SOUND}"}.get(argument, argument) for argument in arguments]
    _, output = execute(path.parent, *gets)
    CHECKS[check](output) if output.strip() else None


SUITE_SEEDS = files("suites/*.yaml", bytes_max=100_000)
PLAN_ARGUMENTS = ("plan", "FILE", "--volume", "a=path:/tmp", "--volume", "b=path:/var", "--target", "local")
GATE = ("gate", "RUN", "--policy", "FILE")
WRITTEN: Mapping[str, tuple[Seeds, str, Sequence[str], str]] = {
    "suite: suite check": (SUITE_SEEDS, "suite.yaml", ("suite", "check", "FILE"), "text"),
    "suite: plan": (SUITE_SEEDS, "suite.yaml", PLAN_ARGUMENTS, "text"),
    "suite: plan json": (SUITE_SEEDS, "suite.yaml", (*PLAN_ARGUMENTS, "--json"), "json"),
    "policy: gate": (texts(POLICY), "policy.yaml", GATE, "text"),
    "policy: gate md": (texts(POLICY), "policy.yaml", (*GATE, "--format", "md"), "md"),
    "policy: gate junit": (files("suites/policies/*.yaml"), "policy.yaml", (*GATE, "--format", "junit"), "junit"),
    "policy: gate html": (texts(POLICY), "policy.yaml", (*GATE, "--format", "html"), "html"),
    "plan: validate": (texts(PLAN), "plan.yaml", ("validate", "FILE", "--dry-run"), "text"),
}


def _validated(render_as: Callable[..., str], check: str, path: Path) -> None:
    """What `validate` found, with the texts of two servers in it, in each of its formats."""
    from volbench.core.records.validation.result import Validation  # noqa: PLC0415 - as the rows of the table

    try:
        result = Validation.model_validate_json(path.read_bytes())
    except ValueError:
        return
    CHECKS[check](render_as(result))


@cache
def _validation_seed() -> Sequence[bytes]:
    return (Path(__file__).with_name("validation.json").read_bytes(),)


def _rows_of_users() -> Iterator[Reader]:
    for name, (seeds, file, arguments, check) in WRITTEN.items():
        yield Reader(
            name=name,
            read=partial(_written, arguments, check),
            seeds=seeds,
            share=10,
            file=file,
            mutate=values.typed_yaml,
            refusals=(),
            cpu_s=CPU_S,
        )
    for name, render_as, check in (
        ("html", validation.validation_html, "html"),
        ("md", validation.validation_markdown, "md"),
        ("junit", validation.validation_junit, "junit"),
        ("text", validation.validation_text, "text"),
    ):
        yield Reader(
            name=f"validation.json: {name}",
            read=partial(_validated, render_as, check),
            seeds=_validation_seed,
            share=10,
            mutate=values.typed_json,
            refusals=(),
            cpu_s=CPU_S,
        )


ROWS: tuple[Reader, ...] = (*_rows_of_runs(), *_rows_of_recordings(), *_rows_of_users())
