"""The fuzzer's table keeps up with the code: what parses text of others is entered by some row's seeds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from fuzzed import READERS

import volbench

PACKAGE = Path(volbench.__file__).parent
PARSERS = frozenset(
    {
        "parse_json",
        "parse_record_json",
        "loads",
        "model_validate_json",
        "read_record",
        "parse_document",
        "fromisoformat",
        "parse_moment",
        "strptime",
        "read_csv",
        "ParquetFile",
        "read_string",
        "read_given",
        "open_given",
    }
)
"""Functions of ours and of libraries that make values of text or bytes."""
UNREACHED = frozenset(
    {
        ("results/store/journal.py", "_is_torn"),
        ("machine/volume/emulated/status.py", "_is_for_a_volume"),
        ("results/credits/history.py", "_is_of"),
        ("results/store/files.py", "_written_by"),
        ("measure/workload/replay/logged_statement.py", "is_moment"),
    }
)
"""What only damaged inputs enter."""
OWN = {
    "core/base/extras.py": "what pip recorded of this installation",
    "cli/cell.py": "the cell that the agent was given",
    "measure/execute/budget.py": "times of the journal, which the row journal has read",
    "measure/execute/cell/snapshots.py": "what the orchestrator wrote into the control directory",
    "measure/execute/run.py": "the result of a template, as the row result.json",
    "results/pack/make.py": "records of a run that load_run has read",
    "results/explain/calibration.py": "a file of the package",
    "cli/compose.py": "its own document",
    "machine/engine/server.py": "what volbench wrote into its control directory",
    "machine/engine/template.py": "the cache's own record, below a marked directory",
    "machine/engine/tls.py": "one byte is read: whether the file can be",
    "observe/process.py": "the observer's own configuration",
    "machine/placement/kubernetes/snapshots/measure.py": "times of the API server and of the reading pod",
    "core/records/base.py": "the base of all records; each model is read by its own reader",
    "core/base/parse.py": "the parsers themselves",
    "measure/sample/config.py": "the agent's own configuration",
    "measure/sample/host/tasks.py": "what the agent's own thread wrote",
    "machine/volume/kinds/run_owner.py": "times of the API server, which a typed client has read",
}
"""Module -> why nothing in it reads what others wrote."""
ELSEWHERE = {
    "cli/runs/list.py": "report.json, as the row report.json",
    "machine/engine/own_data/content.py": "bytes are hashed",
    "machine/placement/docker/own_files.py": "bytes are copied",
    "machine/engine/own_data/pipe.py": "dumps are read by the servers' own clients, test_own_data.py",
    "observe/ring.py": "RingTail follows the observer's own ring; readers of others' rings are in the table",
    "machine/placement/kubernetes/placement.py": "a line of a pod's log: no JSON is passed over",
    "machine/placement/kubernetes/result.py": "a pod's result.json, as the row result.json",
    "machine/placement/kubernetes/run_watch.py": "events of the API server, test_kubernetes_watch.py",
    "machine/placement/processes.py": "PID files below a marked directory",
    "measure/session/carried.py": "bytes are packed",
    "measure/execute/downloads.py": "what volbench wrote beside a download",
    "results/store/run_directory.py": "attempts that were set apart are read as results",
    "validation/queries/log_workers.py": "processes read parts as the row slow-log-classes reads all",
    "validation/queries/comparison.py": "the parser of plans is the row query-plan",
    "machine/cluster/client.py": "answers of the API server, tests/unit/machine/cluster/test_cluster.py",
    "machine/cluster/refusals.py": "answers of the API server, tests/unit/machine/cluster/test_cluster.py",
    "machine/volume/emulated/control.py": "answers of the emulator's daemon, test_emulated.py",
    "machine/volume/node_helper.py": "answers of the node's helper; any other one is an OSError",
    "measure/workload/replay/slowlog_parts.py": "looks for heads of the log in bytes, the row slow-log-classes",
}
"""Module -> where else its input is damaged, or why it cannot be."""


def parsing_functions() -> Iterator[tuple[str, str]]:
    """Module and qualified name of every function of the package that calls a parser."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, function in _functions(ast.parse(path.read_text()), ""):
            calls = (node.func for node in _own_nodes(function) if isinstance(node, ast.Call))
            names = {call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls}
            if names & PARSERS:
                yield path.relative_to(PACKAGE).as_posix(), name


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _functions(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """What belongs to a function and not to one within it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
            yield from _own_nodes(child)


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> frozenset[tuple[str, str]]:
    """Functions of the package that are called while every row reads its first seeds."""
    calls: set[tuple[str, str]] = set()
    prefix = f"{PACKAGE}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(prefix):
            calls.add((frame.f_code.co_filename.removeprefix(prefix), frame.f_code.co_qualname))

    for reader in READERS:
        for seed in reader.seeds()[:3]:
            path = tmp_path_factory.mktemp("row") / reader.file
            path.write_bytes(seed)
            sys.setprofile(note)
            try:
                reader.read(path)
            except reader.refusals:
                pass
            finally:
                sys.setprofile(None)
    return frozenset(calls)


def test_every_function_that_parses_what_others_wrote_is_in_the_table(
    entered: frozenset[tuple[str, str]],
) -> None:
    """A new one needs a row in a module of `fuzzed`; what only volbench writes is listed above."""
    missing = [
        (module, name)
        for module, name in parsing_functions()
        if (module, name) not in entered | UNREACHED and module not in {*OWN, *ELSEWHERE}
    ]
    assert missing == [], "\n".join(map(str, missing))


def test_every_listed_module_still_parses() -> None:
    functions = set(parsing_functions())
    assert not {*OWN, *ELSEWHERE} - {module for module, _ in functions}
    assert not UNREACHED - functions
