"""The log of a command: what was run and decided, and why it failed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from command_line import QUICK, message_of, volbench_process


def test_the_log_says_what_was_run_and_decided_and_its_order_does_not_matter(tmp_path: Path) -> None:
    log = tmp_path / "v.log"
    specs = ("--volume", f"a=path:{tmp_path}", "--volume", "b=path:/tmp")
    for arguments in (("--verbose", "plan", QUICK, *specs), ("plan", QUICK, *specs, "--verbose")):
        ended = volbench_process(*arguments, environment={"VOLBENCH_LOG": "v.log"}, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        for text in (ended.stderr, log.read_text()):
            assert "command: volbench --verbose plan" in text
            assert re.search(r"volbench\.cli\.console: target (docker|local): ", text)
        log.unlink()
        json.loads(
            volbench_process(*arguments, "--json", environment={"VOLBENCH_LOG": "v.log"}, cwd=tmp_path).stdout
        )
    quiet = volbench_process("plan", QUICK, "--target", "local", *specs, cwd=tmp_path)
    assert "volbench." not in quiet.stderr


def test_a_failure_is_in_the_log_with_its_traceback_and_printed_once(tmp_path: Path) -> None:
    log = tmp_path / "v.log"
    message_of(volbench_process("plan", "nowhere.yaml", environment={"VOLBENCH_LOG": str(log)}), 2)
    assert "failed with exit code 2" in log.read_text()
    assert "Traceback" in log.read_text()
    fault = message_of(volbench_process("plan", QUICK, environment={"VOLBENCH_LOG": str(tmp_path / "no/v.log")}), 2)
    assert "VOLBENCH_LOG" in fault
