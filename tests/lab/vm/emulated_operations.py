"""Counts the round trips of an emulated EFS for the actions of nfs_operations, on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vm import nfs_operations as actions
from volbench.machine.volume.emulated.control import ask

PROFILE = "efs-elastic"
NAME = "lab-vm-efs"
CACHED_S = 4.0
"""The client believes attributes for 3 s (`docs/emulated-volumes.md`)."""


def record_emulated(file: Path) -> None:
    """Write the counts of every action; the volume is made and removed. Needs root and FUSE."""
    volbench = [sys.executable, "-m", "volbench"]
    with tempfile.TemporaryDirectory(prefix="volbench-lab-") as parent:
        emulate = ["volume", "emulate", f"emulated:{PROFILE}", "--dir", parent, "--name", NAME]
        subprocess.run([*volbench, *emulate], check=True, stdout=subprocess.DEVNULL)
        try:
            rows = _rows(Path(parent) / NAME)
        finally:
            subprocess.run(
                [*volbench, "volume", "remove", str(Path(parent) / NAME)], check=True, stdout=subprocess.DEVNULL
            )
    file.write_text(json.dumps({"files": actions.FILES, "rows": rows}, indent=1) + "\n")


def _rows(volume: Path) -> list[dict[str, object]]:
    actions.make_tree()
    actions.MOUNT = volume / "data"
    (actions.MOUNT / "work").mkdir()
    rows: list[dict[str, object]] = []
    for action, (run, repeated) in actions.ACTIONS.items():
        if repeated:
            Path("/proc/sys/vm/drop_caches").write_text("3")
            time.sleep(CACHED_S)
        before = _counts(volume)
        run("")
        after = _counts(volume)
        grown = {name: (count - before.get(name, 0)) / actions.FILES for name, count in after.items()}
        requests = {name: round(count, 2) for name, count in grown.items() if count}
        rows.append({"variant": f"emulated {PROFILE}", "action": action, "requests": requests})
    return rows


def _counts(volume: Path) -> dict[str, int]:
    operations = ask(volume, {"do": "counters"})["counters"]["operations"]
    return {name: int(operation["count"]) for name, operation in operations.items()}
