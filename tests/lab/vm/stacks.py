"""Makes each stack of stacks.yaml in the machine, records what its kernel shows, and writes the table of them."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bootstrap.console import Console
from vm.machine import Machine

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parents[1] / "support"
INSIDE = "/opt/volbench/tree/tests/lab/vm"
LIMIT_S = 300.0
HEAD = """# Stacks of storage under a real kernel

What `volbench` finds behind a directory, by kind of stack, in a virtual machine with Debian 13's kernel.
`make lab-vm LAB_VM="record stacks"` writes the recordings in `tests/fixtures/real-kernels/stacks`;
`make lab-vm LAB_VM=table` makes this table from them. The load is 50 synchronous writes of 4 KiB.

- *Complete*: the devices whose counters the load moved are those that volbench counts. The kernel's
  counters are the check, not volbench's reading of sysfs. `+` names devices that moved and are not counted.
- *Disks*: all physical disks were found, those of a journal too, against the names that the stack was made with.
- *Bytes*: written by the disks for a byte that the filesystem's device writes.
- *Flushes*: of the filesystem's device, and of the disks below. A dash: the device does not count any.

| stack | kernel | layers, from the filesystem down | journal | disks | complete | bytes | flushes | command |
|---|---|---|---|---|---|--:|---|---|
"""


def stacks() -> dict[str, dict[str, Any]]:
    """The stacks by name."""
    result: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "stacks.yaml").read_text())
    return result


def record_stacks(machine: Machine, directory: Path, names: Iterable[str], console: Console) -> list[str]:
    """Record stacks into JSON files of a directory; those that have a file are skipped. Returns what failed."""
    directory.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        if (directory / f"{name}.json").exists():
            continue
        stack = stacks()[name]
        script = f"""NAME={name}
MAKE={shlex.quote(stack["make"])}
END={shlex.quote(stack.get("end", ""))}
. {INSIDE}/record_stack.sh
"""
        done = machine.run(script, limit_s=LIMIT_S)
        file = machine.share / "stacks" / f"{name}.json"
        if file.exists():
            shutil.copyfile(file, directory / file.name)
            console.say(f"{name}: recorded")
        else:
            failed.append(name)
            console.say(f"{name}: failed\n{done.output[-2000:]}")
    return failed


def table() -> str:
    """The table of all recordings, as Markdown."""
    sys.path.insert(0, str(SUPPORT))
    from kernel_stacks import NAMES, rebuilt_stack  # noqa: PLC0415 - a module of the tests

    rows = []
    for name in (name for name in stacks() if name in NAMES):
        with tempfile.TemporaryDirectory() as root:
            rows.append(" | ".join(_cells(name, rebuilt_stack(name, Path(root)))))
    return HEAD + "".join(f"| {row} |\n" for row in rows)


def _cells(name: str, stack: Any) -> Iterator[str]:
    facts, expected = stack.facts, stacks()[name]
    command = "<br>".join(f"`{line.strip()}`" for line in expected["make"].splitlines()).replace("|", "\\|")
    yield name
    yield stack.record["kernel"]
    if facts.nfs_server is not None:
        yield f"NFS {facts.nfs_version}"
        yield from ("", "", "NFS counters", "", "", command)
        return
    yield " / ".join(f"{device} ({kind})" for device, kind in facts.stack.items())
    yield " / ".join(facts.journal_devices)
    if "target" in expected:
        yield from ("yes: the target's are elsewhere", "yes" if facts.disk in stack.moved() else "no")
    else:
        letters = expected.get("disks", []) + expected.get("journal", [])
        yield "yes" if set(facts.physical_disks) == stack.disk_names(letters) else "no"
        missing = stack.moved() - set(facts.counted_disks)
        yield "yes" if not missing else "+ " + ", ".join(sorted(map(stack.kind, missing)))
    before, after = stack.counters("before"), stack.counters("after")
    first, disks = facts.counted_disks[0], facts.physical_disks
    written = {disk: after[disk].write_sectors - before[disk].write_sectors for disk in facts.counted_disks}
    yield f"{sum(written[disk] for disk in disks) / written[first]:.2f}" if written[first] else ""
    flushes = {disk: after[disk].flushes - before[disk].flushes for disk in facts.counted_disks}
    yield f"{flushes[first] if first in disks else '–'} / {', '.join(str(flushes[disk]) for disk in disks)}"
    yield command
