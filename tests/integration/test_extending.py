"""A new step, sampler or cause needs the files that docs/extending.md lists, and no other file changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "tests/fixtures/extension"
STEP_FILES_MAX, SAMPLER_FILES_MAX, CAUSE_FILES_MAX = 5, 4, 4
CHANGELOG = 1
"""A news fragment belongs to each extension."""
LAB_CONDITION = 1
"""tests/lab/explain/conditions.yaml makes each cause on purpose."""
COPIED = ("runner/volbench", "suites", "results/schema", "tests/contract", "tests/fixtures/sample", "tests/support")
FILES = (
    "docs/causes.md",
    "pyproject.toml",
    "results/README.md",
    "tests/conftest.py",
    "tests/unit/results/report/test_results_readme.py",
)
GENERATED = {
    "docs/modules.md",
    "docs/causes.md",
    "suites/README.md",
    "suites/suite.schema.json",
    "results/README.md",
    "results/schema/cell.schema.json",
    "results/schema/run.schema.json",
    "runner/volbench/core/records/named_metrics.py",
}
SUITE = """
schema: 2
name: extension
steps:
  - {kind: toy, duration: 1500ms}
sampling: {interval: 100ms, sources: [toy_io]}
repeats: 4
"""


def files_of(extension: str) -> list[Path]:
    """The files of an extension, relative to the repository."""
    base = EXTENSION / extension
    return sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file() and path.suffix != ".pyc")


@pytest.fixture(scope="module", name="tree")
def tree_with_extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's code with all extensions: files are added, none is replaced.

    Compiled modules come along, since each is of the source of the same size and time; half written ones do not.
    """
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name in FILES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for extension in ("step", "sampler", "cause"):
        for path in files_of(extension):
            assert not (tree / path).exists(), f"{path} is no new file"
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(EXTENSION / extension / path, tree / path)
    return tree


def run_in(tree: Path, *arguments: str) -> str:
    """Run Python in the copy, with the copy's code, and return what it prints."""
    outcome = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}/runner:{tree}/tests/support", "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


@pytest.fixture(scope="module", name="answer")
def answer_of_the_run(tree: Path) -> dict[str, Any]:
    """What plan, execution, report and documentation made of a suite with the toy step and the toy sampler."""
    (tree / "extension.yaml").write_text(SUITE)
    output = run_in(tree, "tests/support/extension_run.py", "extension.yaml", str(tree / "work"))
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


def test_the_numbers_of_files_are_those_that_are_promised() -> None:
    assert len(files_of("step")) + CHANGELOG <= STEP_FILES_MAX
    assert len(files_of("sampler")) + CHANGELOG <= SAMPLER_FILES_MAX
    assert len(files_of("cause")) + LAB_CONDITION + CHANGELOG <= CAUSE_FILES_MAX


def test_the_plan_knows_the_time_of_the_step(answer: dict[str, Any]) -> None:
    assert answer["measured_s"] == pytest.approx(2 * 4 * 1.5)


def test_every_cell_runs_and_samples(answer: dict[str, Any]) -> None:
    assert answer["failures"] == []
    assert answer["exit_code"] == 0
    assert answer["sources"]["toy_io"] == ""


def test_the_report_compares_and_labels_the_metric(answer: dict[str, Any]) -> None:
    assert answer["metrics"] == ["toy_syncs_per_s"]
    assert "toy syncs/s" in answer["markdown"]
    assert "synced blocks per second of the step" in answer["html"]


def test_charts_and_causes_use_step_and_source(answer: dict[str, Any]) -> None:
    assert answer["explained"] == ["toy"]
    assert "interference.toy" in answer["causes"]
    assert "The sampling process writes" in answer["html"]
    assert {"iops.reads", "iops.writes", "throughput_mib.read_mib"} <= set(answer["device"])


def changed_pages(answer: dict[str, Any]) -> Iterator[str]:
    """Generated files whose text is another one than in the repository."""
    for name, text in answer["pages"].items():
        if (ROOT / name).read_text() != text:
            yield name


def test_only_generated_pages_change_and_they_name_all_three(answer: dict[str, Any]) -> None:
    assert set(changed_pages(answer)) == GENERATED
    pages = answer["pages"]
    assert "### `kind: toy`" in pages["suites/README.md"]
    assert "### Step toy (`ToyStep`)" in pages["results/README.md"]
    assert "| `toy_sync_ms` | ms | lower | mean time of one write with its sync |" in pages["results/README.md"]
    assert "### source `toy_io`" in pages["results/README.md"]
    assert '"toy_io"' in pages["runner/volbench/core/records/named_metrics.py"]
    title, meaning = "*The sampling process writes.*", "**Meaning.** The sampling process writes what it reads."
    assert f"## interference.toy\n{title}\n\n{meaning}" in pages["docs/causes.md"]


def test_the_contracts_hold_for_them_without_an_entry_in_a_test(tree: Path, answer: dict[str, Any]) -> None:
    """The tests of all steps, samplers and documented fields, on the copy with its generated pages."""
    for name, text in answer["pages"].items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    output = run_in(
        tree,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "toy or Toy or every_kind or every_sampler_is or those_of_the_catalogue",
        "tests/contract",
        "tests/unit/results/report/test_results_readme.py",
        "tests/unit/measure/workload/test_toy.py",
        "tests/unit/results/explain/test_toy_cause.py",
    )
    assert " passed" in output
    assert "failed" not in output
