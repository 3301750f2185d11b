"""The pages of pt-summary and pt-mysql-summary, with programs that print, fail, hang or are not there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from process_state import is_running

from volbench.core.base.environment import find_program
from volbench.measure.execute.cell import summaries
from volbench.measure.execute.cell.summaries import SUMMARIES, write_summaries


def program(directory: Path, name: str, script: str) -> None:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setattr(summaries, "find_program", lambda name: find_program(name, path=str(directory)))
    return directory


def pages(tmp_path: Path) -> dict[str, str]:
    write_summaries(tmp_path / "raw", option_file=tmp_path / "my.cnf", scratch_dir=tmp_path)
    return {path.name: path.read_text() for path in (tmp_path / "raw").iterdir()}


def test_a_page_of_each_tool_is_kept_without_secrets(tmp_path: Path, programs: Path) -> None:
    program(programs, "pt-summary", 'echo "Kernel | 6.1"')
    program(programs, "pt-mysql-summary", 'echo "$@"; echo "password = secret1"')
    written = pages(tmp_path)
    assert written["pt-summary.txt"] == "Kernel | 6.1\n"
    assert written["pt-mysql-summary.txt"].startswith(f"--defaults-file {tmp_path / 'my.cnf'} --sleep 1\n")
    assert "secret1" not in written["pt-mysql-summary.txt"]


def test_a_tool_that_fails_or_is_not_installed_leaves_no_page(tmp_path: Path, programs: Path) -> None:
    program(programs, "pt-summary", "echo half of it; exit 1")
    assert pages(tmp_path) == {}


def test_option_files_of_the_machine_are_left_out(tmp_path: Path, programs: Path) -> None:
    """The measured server does not read them, and they have other servers' secrets."""
    section = "# Configuration File ####\\nwsrep_sst_auth = sst:s3cret\\n"
    program(programs, "pt-mysql-summary", f"printf '# Status ###\\na 1\\n{section}# The End ###\\n'")
    assert pages(tmp_path) == {"pt-mysql-summary.txt": "# Status ###\na 1\n# The End ###\n"}


def test_a_tool_that_cannot_be_started_fails_no_cell(tmp_path: Path, programs: Path) -> None:
    program(programs, "pt-summary", "")
    (programs / "pt-summary").write_text("#!/nonexistent/bash\n")
    assert pages(tmp_path) == {}


@pytest.mark.parametrize("hanging", SUMMARIES)
def test_a_tool_that_hangs_ends_with_its_children(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    """As on a volume that stalls; the other tool's page is kept."""
    monkeypatch.setattr(summaries, "TIMEOUT_S", 1.0)
    child = tmp_path / "child"
    (second,) = set(SUMMARIES) - {hanging}
    program(programs, second, "echo well")
    program(programs, hanging, f"sleep 300 & echo $! >{child}; wait")
    assert pages(tmp_path) == {f"{second}.txt": "well\n"}
    until_s = time.monotonic() + 30
    while is_running(int(child.read_text())):
        assert time.monotonic() < until_s
        time.sleep(0.01)
