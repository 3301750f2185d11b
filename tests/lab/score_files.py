"""What a lab of causes says and writes: its data, their page, and the code and machine that it was scored on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from stored_files import store_text

import volbench
from volbench.machine.host.host import host_facts
from volbench.results.store.journal import utc_now

DATA_FILE, PAGE_FILE = "lab.json.xz", "index.html"
DIGITS = 6
"""Significant digits of what a lab keeps of a run: more would be noise, which takes half of the file."""
UNROUNDED = frozenset(("confidence",))
"""What scores hold against a bound: 0.8999999999999999 is not 0.9."""
SHOWN_FACTS = {"kernel", "cpu_model", "cpus", "memory_bytes", "cgroup_version", "virtualization"}


def write(data: Mapping[str, Any], page: str, directory: Path) -> tuple[Path, Path]:
    """The data, compressed, and index.html."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = directory / DATA_FILE, directory / PAGE_FILE
    store_text(paths[0], json.dumps(data, indent=1) + "\n")
    paths[1].write_text(page, encoding="utf-8")
    return paths


def rounded(value: Any) -> Any:
    """What is kept of a run's figures: each with its significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: item if name in UNROUNDED else rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def template(folder: Path) -> Template:
    """The page of the lab in this folder."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def scored_on() -> dict[str, Any]:
    """When and with which rules a lab is scored, and facts of the machine."""
    facts = host_facts().model_dump(mode="json")
    rules = Path(volbench.__file__).parent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=rules, capture_output=True, text=True, check=False)
    return {
        "at": utc_now(),
        "volbench_version": volbench.__version__,
        "commit": commit.stdout.strip() or "unknown",
        "machine": {name: value for name, value in facts.items() if name in SHOWN_FACTS},
    }


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
