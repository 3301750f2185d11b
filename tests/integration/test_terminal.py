"""Arguments, names of files and messages on a real terminal: nothing from outside is obeyed by it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_user import RUNNER

HOSTILE = "\x1b]0;EVIL\x07\u009b31m"
"""The title of a window (OSC), and a CSI of C1."""
COMMANDS = [
    "@",
    "--@",
    "report @",
    "run @",
    "plan suites/quick.yaml --volume @",
    "volume @",
    "volume show @",
    "volume emulate @",
    "suite check @",
    "observe --interval @",
    "query @",
    "explain --from @",
    "gate @ --policy @",
    "validate @",
    "compare @ @",
    "credits --from @",
    "list @",
    "site @ --out @",
    "volume list --dir @",
    "--verbose report @",
]


def on_terminal(arguments: list[str], directory: Path) -> tuple[int, bytes]:
    """Exit code of a command, and what its terminal got."""
    own, its = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(RUNNER), "TERM": "xterm-256color", "COLUMNS": "300"}
    process = subprocess.Popen(
        [sys.executable, "-m", "volbench", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    output = b""
    try:
        while True:
            try:
                piece = os.read(own, 1 << 16)
            except OSError:  # all that wrote to the terminal have ended
                break
            if not piece:
                break
            output += piece
        return process.wait(60), output
    finally:
        process.kill()
        os.close(own)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_argument_is_obeyed_by_the_terminal(command: str, tmp_path: Path) -> None:
    """Each ends with a message that shows what was given, in escapes, and never as a fault of volbench."""
    code, output = on_terminal([field.replace("@", HOSTILE) for field in command.split()], tmp_path)
    assert code not in (1, 70), output
    for sequence in ("\x1b]", "\x07", "\u009b"):
        assert sequence.encode() not in output, output


def test_a_directory_s_name_is_shown_in_escapes(tmp_path: Path) -> None:
    """Also characters that turn the direction of writing."""
    name = f"{HOSTILE}\u202e"
    (tmp_path / "results" / name).mkdir(parents=True)
    code, output = on_terminal(["report", f"results/{name}"], tmp_path)
    assert code == 2
    assert rb"\x1b]0;EVIL" in output
    assert rb"\x9b31m\u202e" in output
