"""No Python that volbench starts imports from the working directory, which may be /tmp while volbench is root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hostile_user
import pytest
from hostile_user import as_nobody
from planted_modules import IMPORTED, imported_from, plant_modules, run_script

from volbench.core.profile.resolve import resolve
from volbench.core.suite.bundled import bundled_path
from volbench.errors import Refused

SAMPLING = """
import os, sys, time
from pathlib import Path
from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.controller import SamplingProcess, launch

def started(raw_file, **options):
    config = SamplingConfig(raw_file=raw_file, zero_monotonic_ns=time.monotonic_ns(), sources=("cpu",))
    process = SamplingProcess(config, **options)
    try:
        process.start()
    finally:
        print(process.log_file.read_text())
        process.end()
"""
STARTS = {
    "the sampling process": SAMPLING
    + """
started(sys.argv[1] + "/raw/samples")
""",
    "a sampling process that is launched before": SAMPLING
    + """
started(sys.argv[1] + "/raw/samples", launched=launch(Path(sys.argv[1]) / "raw" / "samples"))
""",
    "a sampling process whose directory is relative": SAMPLING
    + """
directory = os.path.relpath(sys.argv[1])
started(directory + "/raw/samples")
assert list(Path(sys.argv[1], "raw").iterdir())
""",
    "the process of an observation": SAMPLING
    + """
from volbench.observe.process import LIMITS_FILE
Path(sys.argv[1], LIMITS_FILE).write_text('{"keep_s": 60.0, "bytes_max": 10000000}')
started(os.path.relpath(sys.argv[1]) + "/samples", module="volbench.observe.process")
""",
    "the agent of a cell": """
import sys
from pathlib import Path
from types import SimpleNamespace
from volbench.machine.placement.local import AGENT_LOG, start_agent
code = start_agent(SimpleNamespace(out=Path(sys.argv[1]), kind="run"), {}).wait(120)
log = Path(sys.argv[1], AGENT_LOG).read_text()
assert "cell.json" in log, log
""",
    "the processes that read a log": """
import os, sys
from pathlib import Path
from volbench.validation.queries.classes import classes_of_log
entry = '''# Time: 2026-11-20T10:00:00.000000Z
# User@Host: a[a] @ b []  Id: 1
# Query_time: 1.000000  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1
use s;
SET timestamp=1795263240;
SELECT 1 FROM t;
'''
log = Path(sys.argv[1], "slow.log")
log.write_text(entry * 100)
if __name__ == "__main__":
    found = classes_of_log(Path(os.path.relpath(log)), ["s"], processes=2, part_bytes=4096)
    assert found.classes[0].count == 100, found
""",
    "the processes of a replay": """
from volbench.machine.engine.connection import Account
from volbench.measure.workload.replay.schedule import Schedule, ScheduledStatement
from volbench.measure.workload.replay.sending import send
if __name__ == "__main__":
    statement = ScheduledStatement(at_s=0.0, connection=1, schema="s", sql="SELECT 1", class_index=0, logged_s=0.1)
    schedule = Schedule(connections=((statement,), (statement,)), fingerprints=("select ?",), skipped={}, log_s=1.0,
                        shared_connections=0, whole_seconds=False)
    results = send(Account(user="u", host="127.0.0.1", port=1), schedule, writes=False, progress=lambda *_: None)
    assert sum(len(result.executions) for result in results) == 2
""",
}
LATE = """
import runpy, os, sys
import {module}
os.chdir({place!r})
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
"""The parent imports before it comes to the directory: the variables would let it import from there itself."""
MODULES_BEFORE = {
    "the sampling process": "volbench.measure.sample.controller",
    "the processes of a replay": "volbench.measure.workload.replay.sending",
    "the agent of a cell": "volbench.machine.placement.local",
}


@pytest.fixture
def directory() -> Iterator[Path]:
    with hostile_user.shared_place() as directory:
        plant_modules(directory)
        yield directory


def script_of(start: str, tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "script"
    path.parent.mkdir()
    path.write_text(STARTS[start])
    return path


@pytest.mark.parametrize("start", STARTS)
def test_a_process_of_ours_imports_nothing_from_the_working_directory(
    start: str, directory: Path, tmp_path: Path
) -> None:
    run_script(script_of(start, tmp_path), tmp_path, directory=directory)
    assert imported_from(directory) == []


@pytest.mark.parametrize("start", ["the sampling process", "the processes of a replay"])
@pytest.mark.parametrize("flags", [("-E",), ("-s",), ("-I",)])
def test_whatever_pythons_own_flags_are(
    start: str, directory: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """`-E` makes Python ignore PYTHONSAFEPATH, and its children inherit `-E`."""
    run_script(script_of(start, tmp_path), tmp_path, directory=directory, flags=flags)
    assert imported_from(directory) == []


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONPATH": f":{hostile_user.RUNNER}"},
        {"PYTHONPATH": f"{hostile_user.RUNNER}:."},
        {
            "PYTHONPATH": "",
            "PYTHONUSERBASE": "base",
            "PYTHONPYCACHEPREFIX": "cache",
            "PYTHONWARNINGS": "error::json.Warning",
            "PYTHONBREAKPOINT": "json.breakpoint",
        },
    ],
    ids=["first entry empty", "last entry relative", "others"],
)
@pytest.mark.parametrize("start", MODULES_BEFORE)
def test_whatever_pythons_own_variables_are(
    start: str, directory: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    late = tmp_path / "late"
    late.write_text(LATE.format(place=str(directory), module=MODULES_BEFORE[start]))
    run_script(
        late,
        script_of(start, tmp_path),
        tmp_path,
        directory=tmp_path,
        **{"PYTHONPATH": str(hostile_user.RUNNER), **variables},
    )
    assert imported_from(directory) == []


def test_the_planted_modules_are_imported_where_nobody_prevents_it(directory: Path, tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    script = tmp_path / "script"
    script.write_text("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json'], check=True)")
    run_script(script, directory=directory)
    assert any("json" in line for line in imported_from(directory))


@pytest.mark.skipif(os.geteuid() != 0, reason="somebody else plants it")
def test_a_planted_suites_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`volbench run suites/quick.yaml` in /tmp: the user means the bundled file, whose name somebody has taken."""
    with hostile_user.shared_place() as directory:
        as_nobody(
            "os.makedirs(sys.argv[1] + '/volumes'); open(sys.argv[1] + '/quick.yaml', 'w')", directory / "suites"
        )
        monkeypatch.chdir(directory)
        with pytest.raises(Refused, match=r"suites/quick.yaml in the working directory is another user's"):
            bundled_path(Path("suites/quick.yaml"))
        with pytest.raises(Refused):
            resolve("ebs-gp3")
        assert bundled_path(Path("suites/compare.yaml")).is_file()


def test_the_module_volbench_leaves_the_working_directory_out(directory: Path) -> None:
    """`python -m volbench`: what Python imports before cannot be helped, but what volbench imports can."""
    for path in directory.iterdir():
        if path.name not in {"json", "typer", "pydantic", "rich", IMPORTED}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    environment = {**os.environ, "PYTHONPATH": str(hostile_user.RUNNER)}
    done = subprocess.run(
        [sys.executable, "-m", "volbench", "--version"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert imported_from(directory) == []
