"""Cuts the power of a recorded load: replays its log onto a file, mounts that, and lets the server recover.

It runs outside of the machine, where processors are not emulated: the machine's kernel has written the log, this
machine's kernel mounts what a cut leaves, and the server is the machine's own.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import mysql.connector

from vm.power_server import (
    CUT,
    PowerServer,
    ServerFailure,
    acknowledged_before,
    bash,
    changed_and_present,
    fill,
    unmount,
)
from vm.write_log import DISCARD, FUA, Cut, CutPlan, Entry, Replay, evenly, position_of, read_entries
from volbench.errors import VolbenchError
from volbench.measure.workload.crash import ledger
from volbench.measure.workload.crash.ledger import LedgerSpec
from volbench.measure.workload.interface import ServerHandle

PAGE_BYTES = 16384
EVIDENCE = re.compile(r"\[ERROR\]|corrupt|checksum|doublewrite|torn|crash recovery|recovered", re.IGNORECASE)
DAMAGE = re.compile(r"\[ERROR\]|corrupt|from the doublewrite", re.IGNORECASE)
EVIDENCE_LINES = 6
BTRFS_CONTROL, BTRFS_IOC_FORGET_DEV = Path("/dev/btrfs-control"), 0x50009405
BTRFS_ARGS_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Images:
    """Files of one load: the device before it and after it, and the log in between."""

    before: Path
    log: Path
    after: Path


class Programs:
    """The machine's own server, run here with its libraries.

    Args:
        root: the machine's root file system as a directory.
    """

    def __init__(self, root: Path) -> None:
        libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/usr/lib"
        loader = str(root / "lib64/ld-linux-x86-64.so.2")
        self.initialised = root / "var/lib/mysql"
        self._program = (loader, "--library-path", libraries, str(root / "usr/sbin/mariadbd"))
        self._options = {
            "basedir": root / "usr",
            "lc_messages_dir": root / "usr/share/mariadb",
            "character_sets_dir": root / "usr/share/mariadb/charsets",
            "plugin_dir": root / "usr/lib/mysql/plugin",
        }

    def server(self, data_dir: Path, options: Mapping[str, object], place: Path) -> PowerServer:
        """A server on a data directory."""
        return PowerServer(data_dir, {**self._options, **options}, place, self._program)


def ledger_of(spec: Mapping[str, Any]) -> LedgerSpec:
    """The ledger of a stack: it determines every byte."""
    return LedgerSpec(seed=1, rows_per_commit=spec["rows_per_commit"], row_bytes=spec["row_bytes"])


def make_template(programs: Programs, spec: Mapping[str, Any], place: Path, target: Path) -> None:
    """Make a data directory with the ledger and the filler, as a tar file."""
    data_dir = place / "mysql"
    bash(f"cp -a {programs.initialised} {data_dir}")
    server = programs.server(data_dir, {}, place)
    server.start()
    try:
        ledger.create(cast("ServerHandle", server), ledger_of(spec))
        fill(server, spec["filler_rows"])
        server.stop()
    finally:
        server.kill()
    holes = "for file in ib_logfile0 ibdata1 undo* volbench_ledger/*.ibd; do fallocate -d $file; done"
    bash(f"cd {data_dir}; {holes}; tar -cSf {target} -C .. mysql")
    shutil.rmtree(data_dir)


def recover_all(
    programs: Programs, spec: Mapping[str, Any], facts: Mapping[str, Any], images: Images, place: Path
) -> Iterator[dict[str, Any]]:
    """Yield what the log has, then the outcome of each cut, then whether the whole log gives the device."""
    log, device = os.open(images.log, os.O_RDONLY), os.open(images.before, os.O_RDWR)
    entries = read_entries(log)
    replay = Replay(entries, log, device)
    yield {"facts": {**{name: value for name, value in facts.items() if name != "extents"}, **counts(entries)}}
    for cut in plan(spec, entries, facts["extents"]):
        replay.advance(cut.durable)
        yield _recovered(programs, spec, cut, entries, replay, images, place)
    replay.finish()
    os.close(log)
    os.close(device)
    same = subprocess.run(["cmp", "-s", images.before, images.after], check=False).returncode == 0
    yield {"replay_is_device": same}


def counts(entries: Sequence[Entry]) -> dict[str, int]:
    """What the log has between the marks `begin` and `end`; `entries` in all."""
    within = entries[position_of(entries, "begin") : position_of(entries, "end")]
    return {
        "entries": len(entries),
        "writes": sum(entry.size_bytes > 0 and not entry.flags & DISCARD for entry in within),
        "flushes": sum(entry.is_flush for entry in within),
        "fua": sum(bool(entry.flags & FUA) for entry in within),
        "discards": sum(bool(entry.flags & DISCARD) for entry in within),
        "acknowledgements": sum(entry.mark.startswith("ack:") for entry in within),
        "mib": round(sum(entry.size_bytes for entry in within if not entry.flags & DISCARD) / (1 << 20)),
    }


def plan(spec: Mapping[str, Any], entries: Sequence[Entry], extents: Sequence[tuple[int, int]]) -> list[Cut]:
    """The cuts in the order in which a replay can make them."""
    number, drawn = spec["cuts"], CutPlan(entries, "1")
    cuts = [
        *drawn.flushes(number.get("flush", 0)),
        *drawn.acknowledgements(number.get("acknowledged", 0)),
        *drawn.between(number.get("between", 0)),
        *drawn.lies(number.get("lying", 0), spec["lie_flushes"]),
        *drawn.torn(number.get("torn", 0), extents, PAGE_BYTES, spec["atomic_bytes"]),
    ]
    return sorted(cuts, key=lambda cut: (cut.durable, cut.position, cut.kind))


def _recovered(
    programs: Programs,
    spec: Mapping[str, Any],
    cut: Cut,
    entries: Sequence[Entry],
    replay: Replay,
    images: Images,
    place: Path,
) -> dict[str, Any]:
    """Recover from one cut; return what the ledger has, or why there is no server that can be asked."""
    begin_s = time.monotonic()
    marks = [entry.mark for entry in entries[: cut.position]]
    writers = acknowledged_before(marks, spec["clients"], spec["commits"])
    line: dict[str, Any] = {
        "kind": cut.kind,
        "position": cut.position,
        "survivors": len(cut.survivors),
        "dropped": cut.dropped,
        "acknowledged": sum(len(writer.acknowledged) for writer in writers),
        "failure": "",
    }
    volume = place / "volume"
    server = programs.server(volume / spec.get("folder", "") / "mysql", spec["options"], place)
    server.log.unlink(missing_ok=True)
    try:
        with _left(cut, replay, images.before, place / "cut.img", volume, spec):
            try:
                server.start()
                check = ledger.read_back(cast("ServerHandle", server), ledger_of(spec), CUT, writers)
                changes, present = changed_and_present(server)
            finally:
                server.kill()
            line |= {
                name: value for name, value in asdict(check).items() if name != "lost_s"
            }  # marks have no times
            line |= {"changes": changes, "present": present}
    except (ServerFailure, mysql.connector.Error, VolbenchError) as error:
        line["failure"] = str(error)[:300]
    return {**line, "said": _evidence(server.log), "seconds": round(time.monotonic() - begin_s, 1)}


@contextmanager
def _left(
    cut: Cut, replay: Replay, durable: Path, file: Path, volume: Path, spec: Mapping[str, Any]
) -> Iterator[None]:
    """What is durable and what else survived a cut, mounted from a copy that is thrown away."""
    bash(f"cp --reflink=auto --sparse=always {durable} {file}; mkdir -p {volume}")
    device = os.open(file, os.O_RDWR)
    for survivor in cut.survivors:
        replay.write(device, survivor)
    os.close(device)
    loop = bash(f"losetup --find --show --offset {spec.get('offset_bytes', 0)} {file}").strip()
    try:
        _forget_btrfs()
        bash(f"mount -o {spec.get('recovery_options', 'defaults')} {loop} {volume}")
        yield
    finally:
        unmount(volume)
        bash(f"losetup --detach {loop}")
        file.unlink()


def _forget_btrfs() -> None:
    """Forget devices with the same file system that a kernel has seen: earlier cuts."""
    with suppress(OSError):  # a kernel without btrfs
        control = os.open(BTRFS_CONTROL, os.O_RDWR)
        with suppress(OSError):
            fcntl.ioctl(control, BTRFS_IOC_FORGET_DEV, bytearray(BTRFS_ARGS_BYTES), True)
        os.close(control)


def _evidence(log: Path) -> list[str]:
    """The server's own lines about damage, else about its recovery; the first and the last among them."""
    if not log.exists():
        return []
    lines = [line[:220] for line in log.read_text(errors="replace").splitlines() if EVIDENCE.search(line)]
    chosen = [line for line in lines if DAMAGE.search(line)] or lines
    return [chosen[number] for number in evenly(range(len(chosen)), EVIDENCE_LINES)]
