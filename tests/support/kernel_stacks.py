"""Stacks of storage as a real kernel showed them: recorded by `make lab-vm`, rebuilt as files for the readers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.core.base.mountinfo import parse_mountinfo
from volbench.core.records.facts import VolumeFacts
from volbench.machine.volume.facts.discovery import facts_of
from volbench.measure.sample.parsers.diskstats import DiskCounters, parse_diskstats

DIRECTORY = Path(__file__).resolve().parents[1] / "fixtures" / "real-kernels" / "stacks"
NAMES = tuple(sorted(file.stem for file in DIRECTORY.glob("*.json")))
FOREIGN = ("vda", "vdb", "sr0", "fd0")
"""Devices of the recording machine that belong to no stack."""


@dataclass(frozen=True)
class RecordedStack:
    """One recording below `root`, which has `sys`."""

    record: dict[str, Any]
    root: Path

    @property
    def sys(self) -> Path:
        """The sysfs tree."""
        return self.root / "sys"

    @property
    def facts(self) -> VolumeFacts:
        """The facts of the stack's data directory."""
        return facts_of(self.record["path"], parse_mountinfo(self.record["mountinfo"]), sys=self.sys)

    def disk_names(self, letters: list[str]) -> set[str]:
        """Kernel names of the NVMe devices A to D, which they have by their serial numbers."""
        serials = {
            text: Path(file).parents[1].name
            for file, text in self.record["files"].items()
            if file.endswith("device/serial")
        }
        return {serials[f"volume{'ABCD'.index(letter)}"] for letter in letters}

    def kind(self, name: str) -> str:
        """What a device is called: the name of a mapped device, else that of the kernel."""
        mapped = self.root / "sys/class/block" / name / "dm/name"
        return mapped.read_text().strip() if mapped.exists() else name

    def moved(self) -> set[str]:
        """Whole disks that read or wrote during the recorded load."""
        before, after = self.counters("before"), self.counters("after")
        partitions = {Path(file).parent.name for file in self.record["files"] if file.endswith("/partition")}
        return {
            name
            for name, counters in after.items()
            if name not in (*FOREIGN, *partitions)
            and (counters.reads, counters.writes) != (before[name].reads, before[name].writes)
        }

    def counters(self, moment: str) -> dict[str, DiskCounters]:
        """Of every device, `before` or `after` the load."""
        return parse_diskstats(self.record[f"diskstats_{moment}"])


def rebuilt_stack(name: str, root: Path) -> RecordedStack:
    """The recording with its files and symbolic links below `root`."""
    record = json.loads((DIRECTORY / f"{name}.json").read_text())
    for path, text in record["files"].items():
        file = root / path.lstrip("/")
        if path.endswith("/"):
            file.mkdir(parents=True, exist_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    for path, target in record["links"].items():
        link, folder = root / path.lstrip("/"), root / target.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    return RecordedStack(record, root)
