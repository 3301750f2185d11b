"""Every command that volbench advises is one that volbench takes."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import printed_commands
import pytest
from command_line import ROOT
from printed_commands import Printed, fault_of, in_source, in_text, setting_fault, settings_in, strings, targets_in
from stored_files import REPORT, stored_text

from volbench.core.suite.load import load_suite
from volbench.results.explain.run import explain_run
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

SUITE = ROOT / "suites/quick.yaml"
SCALED = ROOT / "suites/backup-window.yaml"
RUN = ROOT / "tests/golden/run"
SETTINGS_OF_OTHERS = frozenset({"iops=5000", "steps.\N{WHITE SQUARE}.fault=kill_server", "steps.cold_read=null"})
"""Of `credits --set`, whose keys are a profile's, of a crash step (`test_power_cuts.py` loads it), and of the page
on suites, whose example has a step of this name (`core/suite/test_docs.py` loads it)."""
ARCHIVES = sorted((ROOT / "tests/fixtures/lab-runs").glob("*.tar.xz"))[::8]
EXAMPLES = sorted(path for name in ("report.md", REPORT) for path in (ROOT / "results/examples").rglob(name))


def _numbered(printed: Iterator[Printed]) -> list[Printed]:
    return list(dict.fromkeys(printed))


@pytest.mark.parametrize("printed", _numbered(in_source()), ids=lambda item: f"{item.where}: {item.text}")
def test_a_command_in_the_source_is_parsed_to_its_end(printed: Printed) -> None:
    assert fault_of(printed, suite=SUITE, run=RUN) == ""


def test_settings_in_the_source_are_keys_of_a_suite() -> None:
    faults = {}
    for path, line, text in strings():
        for one_line in text.splitlines():
            settings = [setting for setting in settings_in(one_line) if setting not in SETTINGS_OF_OTHERS]
            suite = SCALED if any(setting.startswith("scale=") for setting in settings) else SUITE
            if settings and (fault := setting_fault(settings, suite=suite)):
                faults[f"{path}:{line}: {settings}"] = fault
    assert faults == {}


def test_targets_of_make_in_the_source_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {target: f"{path}:{line}" for path, line, text in strings() for target in targets_in(text)}
    assert {target: where for target, where in named.items() if target not in targets} == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "results/examples")))
def test_a_command_in_a_committed_report_is_parsed_to_its_end(path: Path) -> None:
    beside = path.with_name(REPORT)
    report = json.loads(stored_text(beside)) if beside.is_file() else {}
    text = "\n".join(map(str, _texts(report))) if path.name == REPORT else path.read_text()
    suite = _suite_of(report)
    faults = {
        item.text: fault for item in in_text(text, path.name) if (fault := fault_of(item, suite=suite, run=RUN))
    }
    assert faults == {}


def _suite_of(report: dict[str, Any]) -> Path:
    """Return the shipped suite that a report is of, for commands that name its steps."""
    shipped = ROOT / f"suites/{report.get('suite')}.yaml"
    return shipped if shipped.is_file() else SUITE


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def test_a_command_that_is_refused_is_told() -> None:
    """The check itself: an unknown option, an unknown key, a missing argument, an unknown command."""
    for text in (
        "`volbench run suites/quick.yaml --nope`",
        "this decides: volbench run SUITE --set config.innodb_buffer_pool_size=64M.",
        "then `volbench resume`",
        "volbench run --volume a=path:/mnt/a; more",
    ):
        assert [fault_of(item, suite=SUITE, run=RUN) for item in in_text(text, "")] != [""], text
    assert {"volume", "suite", "k8s"} <= printed_commands.GROUPS


@pytest.mark.parametrize("version", ["8.4", "8.10", "10.11", "9", "'8.4'"])
def test_a_version_is_taken_as_it_is_written(version: str) -> None:
    suite, _ = load_suite(SUITE, settings=[f"engine.version={version}"])
    assert suite.resolved().server.version == version.strip("'")


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_command_in_what_is_found_is_one_for_the_suite_of_its_run(archive: Path, tmp_path: Path) -> None:
    """The lab's recorded runs, with the run's own suite for SUITE."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)  # noqa: S202 - our own fixture
    run = RunDirectory.open(next(tmp_path.rglob("run.json")).parent)
    suite = tmp_path / "suite.yaml"
    suite.write_text(run.run.suite_source)
    findings = explain_run(load_run(run)).findings
    texts = [row.advice for row in findings] + [entry.text for row in findings for entry in row.evidence]
    printed = [item for text in texts for item in in_text(text, archive.name)]
    assert {item.text: fault for item in printed if (fault := fault_of(item, suite=suite, run=run.path))} == {}
