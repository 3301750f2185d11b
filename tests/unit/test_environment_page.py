"""docs/environment.md has each variable that volbench reads or sets, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from volbench.core.base import environment, python

ROOT = Path(__file__).resolve().parents[2]
INTERNAL = {"VOLBENCH_ACCOUNTS", "VOLBENCH_SYSBENCH_TEST"}
"""Between volbench and a script of its own, in one process tree or container."""


def test_the_page_has_every_variable_of_the_code() -> None:
    """By the names in the package's strings; variables of labs and tests are theirs."""
    code = "\n".join(path.read_text() for path in (ROOT / "runner/volbench").rglob("*.py"))
    read = set(re.findall(r"[\"'`$](VOLBENCH_[A-Z_]+)\b", code)) - INTERNAL
    documented = re.findall(r"^\| `(VOLBENCH_[A-Z_]+)`", (ROOT / "docs/environment.md").read_text(), re.MULTILINE)
    assert sorted(read) == sorted(documented)


def test_the_page_lists_what_programs_get() -> None:
    page = (ROOT / "docs/environment.md").read_text().partition("## What programs get")[2]
    listed = set(re.findall(r"`([A-Z_a-z*]+)`", page.partition("So `EDITOR`")[0]))
    patterns = {*environment.USUAL, *environment.OWN, *environment.CONTAINERS, "PATH", "PYTHONPATH"} - {"*_PROXY"}
    named = {name for name in listed if name.isupper() or "*" in name} - {"LUA_PATH"} - python._SWITCHES
    assert named == patterns
