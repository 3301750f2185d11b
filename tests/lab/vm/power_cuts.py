"""Runs the power cuts of power_cuts.yaml in the machine, and writes the page of their results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bootstrap.console import Console
from vm.machine import Machine, Nvme
from vm.power_recovery import Images, Programs, make_template, recover_all
from vm.power_server import ServerFailure, bash
from vm.write_log import LogError
from volbench.errors import MissingPrerequisite

HERE = Path(__file__).resolve().parent
LIMIT_S = 2400.0
DEVICE_BYTES, LOG_BYTES = 400 << 20, 1 << 30
DEVICES = (*(Nvme(size_bytes=size) for size in (DEVICE_BYTES, LOG_BYTES, DEVICE_BYTES)),)
"""The stack's, the log's, and what the stack's was before the log began."""
HONEST = ("flush", "acknowledged", "between", "torn")
KINDS = (*HONEST, "lying")
UNDO = """pkill -9 mariadbd || true; umount -fl /mnt/data /mnt/other || true; rpc.nfsd 0 || true
vgchange -qq -an vg || true; dmsetup remove_all --force; udevadm settle"""
"""What a failure leaves, for the next stack; the machine is thrown away anyhow."""
COMMAND = "PYTHONPATH=$PYTHONPATH:/opt/volbench/tree/tests/lab python3 -m"
HEAD = """# Power cuts under a real kernel

Which stacks keep every commit that MariaDB acknowledged when the power goes. In the machine of `make lab-vm`
(kernel {kernel}, MariaDB {server}, {accelerator}) device mapper's log-writes target records what a stack
sends to its disk while {clients} clients commit {commits} transactions. Each inserts two rows into a ledger
whose bytes can be computed again, and changes a row of a second table. The client marks each acknowledgement in
the log. A cut is a replay of that log up to one place, then a mount, the same server's own recovery, and a
comparison of all rows; these three on the machine outside (kernel {recovery_kernel}), which is faster.
Each stack was loaded once, so this shows what was kept in these cuts and no rate.
`make lab-vm LAB_VM="record power"` records into `tests/fixtures/real-kernels/power-cuts.jsonl`, a line a
cut; `LAB_VM=table` writes this page.

Cuts are drawn evenly from the load, and by a seed what survives them:

- *flush*: right after a flush or a write with FUA. Only what they made durable is left.
- *acknowledged*: right after a client got an acknowledgement. Whatever a volatile cache may lose is lost.
- *between*: while a flush is under way. Each write that waits for it is left or gone, by chance.
- *torn*: as between, but all these writes are left, and of one page of 16 KiB the device has the first 4 KiB.
- *lying*: the device acknowledged flushes and FUA and did neither: of what it got since {lie_flushes} flushes ago,
  each write is left or gone by chance. No stack can keep commits on such a device: a control that must lose.

## Results
*Lost*: acknowledged commits without a row, after one cut. *Wrong*: cuts after which a transaction is there by half,
a row has other bytes than were written, or the two tables disagree. *No server*: cuts after which the server did
not start or did not answer.

| stack | cuts | number | acknowledged at the cut | cuts that lost | lost | wrong | no server |
|---|---|--:|--:|--:|--:|--:|--:|
"""
STACKS = """
## Stacks
In the log, from the first commit to the last: writes, flushes, writes with FUA. *Replay*: whether a replay of the
whole log gives the disk byte by byte; without that no cut would mean anything. The log has a write when a flush
makes it durable: of a stack that never flushes, none before the end of the load.

| stack | settings that differ | made and mounted by | MiB | writes | flushes | FUA | replay |
|---|---|---|--:|--:|--:|--:|---|
"""
CLAIMS = """
## What the emulator says of power cuts
Its volumes take back what was not flushed ([emulated volumes](../../../docs/emulated-volumes.md#power-cuts), [what
servers lose on them](../emulator/servers.md), [doublewrite](../../../docs/questions/doublewrite.md)). Here is the
kernel's own answer. The emulator has no device that lies, and no mount options: those rows have no claim.

| claim | stacks here | cuts | that kept everything | holds |
|---|---|--:|--:|---|
"""
FAILURES = """
## No server
Each failure, and the server's first error.

| stack | cut | failure |
|---|---|---|
"""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the emulator says of some cuts of some stacks; `keeps` None: nothing."""

    text: str
    stacks: tuple[str, ...]
    kinds: tuple[str, ...]
    keeps: bool | None


UNTORN = ("flush", "acknowledged", "between")
ALL_CLAIMS = (
    Claim(
        text="a cache that honours flushes (`write back`) loses nothing acknowledged",
        stacks=("ext4", "xfs", "btrfs", "ext4-lvm"),
        kinds=UNTORN,
        keeps=True,
    ),
    Claim(text="nor does a synchronous export", stacks=("nfs-sync",), kinds=UNTORN, keeps=True),
    Claim(text="an export with `async` loses commits", stacks=("nfs-async",), kinds=UNTORN, keeps=False),
    Claim(text="doublewrite repairs pages torn at 4 KiB", stacks=("ext4",), kinds=("torn",), keeps=True),
    Claim(
        text="without it a torn page is damage or no server",
        stacks=("ext4-no-doublewrite",),
        kinds=("torn",),
        keeps=False,
    ),
    Claim(text="none: `nobarrier`", stacks=("ext4-nobarrier",), kinds=UNTORN, keeps=None),
    Claim(text="none: a device that lies", stacks=("ext4", "xfs"), kinds=("lying",), keeps=None),
)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the file has of one stack."""

    facts: dict[str, Any]
    cuts: tuple[dict[str, Any], ...]
    replay_is_device: bool

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The cuts of these kinds."""
        return [cut for cut in self.cuts if cut["kind"] in kinds]


def conditions() -> dict[str, Any]:
    """What power_cuts.yaml says."""
    result: dict[str, Any] = yaml.safe_load((HERE / "power_cuts.yaml").read_text(encoding="utf-8"))
    return result


def spec_of(name: str) -> dict[str, Any]:
    """One stack with the defaults of the file, as the machine gets it."""
    defaults = conditions()
    stack = defaults.pop("stacks")[name]
    merged = {key: {**defaults[key], **stack.get(key, {})} for key in ("cuts", "options")}
    return {**defaults, **stack, **merged}


def read_recorded(file: Path) -> dict[str, Recorded]:
    """The stacks of a file whose lines are complete."""
    lines: dict[str, list[dict[str, Any]]] = {}
    if file.exists():
        for text in file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            lines.setdefault(line.pop("stack"), []).append(line)
    return {
        name: Recorded(
            facts=group[0]["facts"], cuts=tuple(group[1:-1]), replay_is_device=group[-1]["replay_is_device"]
        )
        for name, group in lines.items()
    }


def record_power(machine: Machine, root: Path, file: Path, names: Iterable[str], console: Console) -> list[str]:
    """Record stacks that the file lacks; returns those that failed.

    Args:
        root: the machine's root file system as a directory, for its server.
    """
    failed = []
    shared = machine.share / "power"
    shared.mkdir(exist_ok=True)
    programs = Programs(root)
    with tempfile.TemporaryDirectory(prefix="volbench-power-", dir="/var/tmp") as directory:
        place = Path(directory)
        make_template(programs, conditions(), place, shared / "template.tar")
        for name in names:
            if name in read_recorded(file):
                continue
            try:
                lines = _record(machine, programs, name, place)
            except (MissingPrerequisite, ServerFailure, LogError, OSError, subprocess.SubprocessError) as error:
                console.say(f"{name}: {error}")
                machine.run(UNDO)
                failed.append(name)
                continue
            with file.open("a", encoding="utf-8") as out:
                out.write("".join(json.dumps({"stack": name, **line}) + "\n" for line in lines))
            console.say(f"{name}: {len(lines) - 2} cuts recorded")
    return failed


def _record(machine: Machine, programs: Programs, name: str, place: Path) -> list[dict[str, Any]]:
    """Load one stack in the machine, and cut what it has written; returns the lines of the file."""
    spec, shared = spec_of(name), machine.share / "power"
    (shared / f"{name}.json").write_text(json.dumps(spec))
    machine.checked(f"{COMMAND} vm.power_inside {name}", limit_s=LIMIT_S)
    facts = json.loads((shared / f"{name}.facts.json").read_text())
    images = Images(before=place / "before.img", log=place / "log.img", after=place / "after.img")
    for number, copy in ((2, images.before), (1, images.log), (0, images.after)):
        bash(f"cp --sparse=always {machine.nvme_image(number)} {copy}")
    facts |= {"kernel": machine.kernel, "accelerator": machine.accelerator, "recovery_kernel": os.uname().release}
    return list(recover_all(programs, spec, facts, images, place))


def record_write_log(machine: Machine, file: Path) -> None:
    """Record a small log of known requests. Raises MissingPrerequisite when that fails."""
    machine.checked(f"{COMMAND} vm.write_log_sample /share/write-log.bin", limit_s=LIMIT_S)
    shutil.copyfile(machine.share / "write-log.bin", file)


def is_wrong(cut: dict[str, Any]) -> bool:
    """Whether what the server has after a cut is no state that transactions could have left."""
    return not cut["failure"] and bool(cut["torn"] or cut["damaged_rows"] or cut["changes"] != cut["present"])


def lost(cut: dict[str, Any]) -> int:
    """Acknowledged commits that are not there; none where nobody can be asked."""
    return 0 if cut["failure"] else int(cut["lost"])


def keeps(cuts: Iterable[dict[str, Any]]) -> bool:
    """Whether every acknowledged commit is there, whole, after each of the cuts."""
    return not any(cut["failure"] or lost(cut) or is_wrong(cut) for cut in cuts)


def power_table(file: Path) -> str:
    """The page of a recording, as Markdown."""
    recorded = read_recorded(file)
    stacks = {name: recorded[name] for name in conditions()["stacks"] if name in recorded}
    facts = next(iter(stacks.values())).facts
    head = HEAD.format(
        kernel=facts["kernel"],
        server=facts["server"].partition("-")[0],
        accelerator={"tcg": "emulated processors", "kvm": "KVM"}[facts["accelerator"]],
        recovery_kernel=facts["recovery_kernel"],
        clients=conditions()["clients"],
        commits=facts["commits"],
        lie_flushes=conditions()["lie_flushes"],
    )
    results = [row for name, stack in stacks.items() for row in _results(name, stack)]
    made = [_stack(name, stack) for name, stack in stacks.items()]
    claims = [row for claim in ALL_CLAIMS for row in _claim(claim, stacks)]
    return "".join((head, *results, CLAIMS, *claims, *_disorder(stacks), STACKS, *made, *_statements(stacks)))


def _claim(claim: Claim, stacks: Mapping[str, Recorded]) -> Iterator[str]:
    """The row of a claim about stacks that are recorded: it holds by all cuts, or by one that loses."""
    names = [name for name in claim.stacks if name in stacks]
    cuts = [cut for name in names for cut in stacks[name].of(*claim.kinds)]
    if cuts:
        kept = sum(keeps([cut]) for cut in cuts)
        holds = kept == len(cuts) if claim.keeps else kept < len(cuts)
        answer = "" if claim.keeps is None else ("yes" if holds else "no")
        yield _row(claim.text, ", ".join(names), len(cuts), kept, answer)


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def _results(name: str, stack: Recorded) -> Iterator[str]:
    for kind in KINDS:
        if cuts := stack.of(kind):
            acknowledged = [cut["acknowledged"] for cut in cuts]
            losing = [lost(cut) for cut in cuts if lost(cut)]
            wrong, silent = sum(map(is_wrong, cuts)), sum(bool(cut["failure"]) for cut in cuts)
            sizes = (_range(acknowledged), len(losing), _range(losing or [0]))
            yield _row(name, kind, len(cuts), *sizes, wrong, silent)


def _disorder(stacks: Mapping[str, Recorded]) -> Iterator[str]:
    """What the emulator's asynchronous export does not show."""
    if cuts := stacks["nfs-async"].of(*UNTORN) if "nfs-async" in stacks else []:
        silent = sum(bool(cut["failure"]) for cut in cuts)
        yield (
            "\nOne difference: the emulator takes back an asynchronous export's newest writes, so that a server\n"
            "starts again with older data. A kernel writes back in another order: "
            f"{silent} of {len(cuts)} cuts of nfs-async left no server.\n"
        )


def _range(numbers: Sequence[int]) -> str:
    return " to ".join(map(str, sorted({min(numbers), max(numbers)})))


def _stack(name: str, stack: Recorded) -> str:
    spec, facts = spec_of(name), stack.facts
    defaults = conditions()["options"] | {"innodb_doublewrite": "ON"}
    differing = [f"`{key}={value}`" for key, value in facts["settings"].items() if str(defaults[key]) != value]
    steps = spec.get("load_mount", spec["mount"]).strip().splitlines()
    mounted = "<br>".join(f"`{line.strip()}`" for line in (*spec["make"].strip().splitlines(), *steps))
    counts = (facts[key] for key in ("mib", "writes", "flushes", "fua"))
    return _row(name, ", ".join(differing), mounted, *counts, "the disk" if stack.replay_is_device else "differs")


def _statements(stacks: dict[str, Recorded]) -> Iterator[str]:
    """What the server said after torn writes, and why there was no server."""
    torn = {name: stack.of("torn") for name, stack in stacks.items() if stack.of("torn")}
    if torn:
        yield "\n## Torn pages\n"
    for name, cuts in torn.items():
        repaired = sum(any("from the doublewrite" in line for line in cut["said"]) for cut in cuts)
        yield (
            f"- {name}: {sum(keeps([cut]) for cut in cuts)} of {len(cuts)} cuts lost nothing; after {repaired} the "
            "server said that it took a page from its doublewrite buffer.\n"
        )
    failures = [(name, cut) for name, stack in stacks.items() for cut in stack.cuts if cut["failure"]]
    if failures:
        yield FAILURES
    for name, cut in failures:
        first = next((line.partition(" 0 ")[2] for line in cut["said"] if "[ERROR]" in line), "")
        yield _row(name, cut["kind"], f"{cut['failure']}: `{first}`" if first else cut["failure"])
