"""What the processes of every cell and the short commands do not import: imports are most of what these cost.

Modules and not seconds are compared, so that the test judges alike on an idle and on a busy machine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes

READERS = {"numpy", "pyarrow", "duckdb"}
CLIENTS = {"docker", "requests", "kubernetes", "boto3", "prometheus_client"}
PAGES = {"jinja2", "sqlglot", "cryptography", "ruamel"}
SCREEN = {"rich", "typer"}


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        # Until the sampling process is launched, which then imports its modules beside the agent.
        ("volbench.cli.cell", {*READERS, *CLIENTS, *PAGES, "pydantic", "mysql"}),
        ("volbench.measure.sample.controller", {*READERS, *CLIENTS, *PAGES, *SCREEN, "pydantic", "mysql"}),
        # Until the server starts; what is imported meanwhile is LATER_MODULES.
        (
            "volbench.measure.execute.cell.agent",
            {*READERS, *CLIENTS, *PAGES, *SCREEN, "volbench.measure.workload.oltp.oltp"},
        ),
        ("volbench.measure.execute.cell.prepare", {*READERS, *CLIENTS, *PAGES, *SCREEN}),
        ("volbench.measure.sample.process", {*READERS, *CLIENTS, *PAGES, *SCREEN}),
        ("volbench.cli.runs.plan", {*READERS, *CLIENTS, *PAGES, "mysql"} - {"ruamel"}),
    ],
)
def test_it_imports_nothing_that_it_can_do_without(module: str, forbidden: set[str]) -> None:
    assert imported_by(f"import {module}") & forbidden == set()


def test_the_agent_has_all_its_modules_once_the_server_has_started() -> None:
    """What a step imports while it is measured would use the CPU of its load."""
    code = (
        "import volbench.measure.execute.cell.agent\n"
        "from volbench.measure.execute.cell.owned_cell import LATER_MODULES, importing\n"
        "from volbench.core.records.steps.oltp import KIND\n"
        "from volbench.measure.workload.registry import modules_for, workload_for\n"
        "with importing((*LATER_MODULES, *modules_for([KIND.example()]))): pass\n"
        "before = set(sys.modules)\n"
        "import volbench.measure.execute.cell.judging, volbench.measure.sample.rows\n"
        "import volbench.measure.workload.size_contrast\n"
        "workload_for(KIND.example())\n"
        "from volbench.measure.execute.cell.recorder import recording\n"
        "with recording(Path(tempfile.mkdtemp())) as record: record.open()\n"
        "print(*sorted(name for name in set(sys.modules) - before if name.startswith('volbench')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, tempfile\nfrom pathlib import Path\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["volbench", "volbench.measure.sample.process"])
def test_no_process_of_a_cell_looks_for_garbage_when_it_ends(module: str) -> None:
    """After an agent's imports, the search takes longer than all else between its result and its end."""
    code = (
        "import atexit, gc, runpy, sys\n"
        "atexit.register(lambda: print('frozen' if gc.get_freeze_count() else 'collected'))\n"
        "sys.argv = ['it', '--version' if sys.argv[1] == 'volbench' else '-']\n"
        f"runpy.run_module({module!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-c", code, module]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split()[-1] == "frozen"


def test_duckdb_does_not_complain_of_objects_that_were_not_collected() -> None:
    """Its bindings look for their objects when the interpreter ends, and `query` printed what they were."""
    code = (
        "from volbench.core.base.python import collect_nothing_at_end\n"
        "collect_nothing_at_end()\n"
        "import duckdb\n"
        "print(duckdb.sql('SELECT 1').fetchall())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("[(1,)]\n", "")


def test_a_commands_modules_set_off_no_search_for_garbage() -> None:
    """There were hundreds while they were imported, 0.1 s of CPU, and each later one went through all of them."""
    code = (
        "import gc\n"
        "from volbench.cli.main import command_of\n"
        "before = [each['collections'] for each in gc.get_stats()]\n"
        "assert command_of('report').name == 'report'\n"
        "assert [each['collections'] for each in gc.get_stats()] == before, gc.get_stats()\n"
        "assert gc.isenabled()\n"
        "assert gc.get_freeze_count() > len(gc.get_objects())"
    )
    assert "volbench.results.report.render" in imported_by(code)


def test_an_agent_imports_the_workloads_of_its_cells_steps_alone() -> None:
    """All of them are 110 modules and 0.1 s of CPU, with YAML and profiles: each cell paid for them."""
    code = (
        "from volbench.core.records.steps import STEP_KINDS\n"
        "from volbench.measure.workload.registry import modules_for, workload_for\n"
        "load = STEP_KINDS['oltp'].example().model_copy(update={'concurrent': (STEP_KINDS['alter'].example(),)})\n"
        "assert modules_for([load]) == ('volbench.measure.workload.oltp.oltp', 'volbench.measure.workload.alter')\n"
        "workload_for(load)"
    )
    unused = {"volbench.measure.workload.alter", "volbench.measure.workload.replay.step", "ruamel", "numpy"}
    assert imported_by(code) & {*unused, *PAGES, *CLIENTS} == set()


@pytest.mark.parametrize("kind", ["golden", "with histograms"])
def test_a_report_is_made_without_the_functions_of_arrow(tmp_path: Path, kind: str) -> None:
    """pyarrow.compute wraps 300 of them when it is imported, and each process that reads a table waited for it."""
    run = Path(__file__).parents[2] / "golden/run"
    if kind == "with histograms":
        run = build_run(tmp_path, two_volumes(repeats=2)).path
        assert list(run.glob("cells/*/histograms.parquet"))
    code = (
        "from pathlib import Path\n"
        "from volbench.results.report.build import build_report\n"
        "from volbench.results.store.run_directory import RunDirectory\n"
        f"assert build_report(RunDirectory.open(Path({str(run)!r}))).summary.headline"
    )
    assert "pyarrow.compute" not in imported_by(code)


def test_the_check_sees_what_it_forbids() -> None:
    assert "numpy" in imported_by("import volbench.results.store.series")


def imported_by(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return {*done.stdout.split(), *(name.partition(".")[0] for name in done.stdout.split())}
