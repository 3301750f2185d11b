"""Boots the virtual machine and runs commands inside: a shell script, tests of the project, or recordings.

python -m vm image
python -m vm run SCRIPT [--systemd] [--give FILE] [--collect DIRECTORY]
python -m vm pytest ARGUMENTS...
python -m vm record stacks|operations|throttles|fsx|power|write-log|emulated [NAME...]
python -m vm inject [--out DIRECTORY] [NAME...]
python -m vm pack --out DIRECTORY
python -m vm scores
python -m vm table
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

from bootstrap.console import Console, open_console
from bootstrap.directories import Directories, find_directories
from causes.observed import Run
from vm.emulated_operations import record_emulated
from vm.fsx import fsx_table, record_fsx
from vm.image import Image, ensure_image
from vm.injection_sample import pack, unpacked
from vm.injection_scores import Proven, in_order, page, read_run
from vm.injections import inject_all
from vm.machine import FOUR_DEVICES, LAB_INIT, MEMORY_MIB, SYSTEMD, Machine, Nvme
from vm.operations import operations_table, record_operations
from vm.power_cuts import DEVICES as POWER_DEVICES
from vm.power_cuts import conditions, power_table, record_power, record_write_log
from vm.stacks import record_stacks, stacks, table
from vm.throttles import DEVICES, record_throttles
from volbench.errors import MissingPrerequisite, VolbenchError
from volbench.results.store.run_directory import RunDirectory

LIMIT_S = 2400.0
SERVICE_DEVICES = (Nvme(size_bytes=8 << 30), Nvme(), Nvme())
"""The first has room for an engine's images."""
SERVICE_MEMORY_MIB = 3072
RECORDINGS = Path("tests/fixtures/real-kernels")
TABLES = Path("results/examples/real-kernels")
INJECTIONS = Path("results/vm-injections")


def main(arguments: list[str] | None = None) -> int:
    """Run one action; returns the exit code of what ran inside."""
    parser = argparse.ArgumentParser(
        prog="vm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for what runs inside")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("image")
    script = actions.add_parser("run")
    script.add_argument("script", type=Path, help="a bash script; what it writes below /share can be collected")
    script.add_argument("--collect", type=Path, help="where the shared directory is copied to")
    script.add_argument("--systemd", action="store_true", help="as the first process: Docker, Podman and services")
    script.add_argument("--give", type=Path, action="append", default=[], help="a file that is copied to /share")
    actions.add_parser("pytest", help="with pytest's own arguments after it")
    records = actions.add_parser("record", help="into tests/fixtures/real-kernels; what is there is skipped")
    records.add_argument(
        "kind", choices=("stacks", "operations", "throttles", "fsx", "power", "write-log", "emulated")
    )
    records.add_argument("names", nargs="*")
    inject = actions.add_parser("inject", help="causes made while one server runs; what has results is skipped")
    inject.add_argument("--out", type=Path, default=INJECTIONS, help="where runs stay")
    inject.add_argument("names", nargs="*")
    packs = actions.add_parser("pack", help="runs of `inject` into the sample; needs no machine")
    packs.add_argument("--out", type=Path, default=INJECTIONS)
    packs.add_argument("--read-before", action="store_true", help="rules may have been changed on these runs")
    actions.add_parser("scores", help="a page of real-kernels from the sample; needs no machine")
    actions.add_parser("table", help="results/examples/real-kernels from the recordings; needs no machine")
    argv = sys.argv[1:] if arguments is None else arguments
    end = argv.index("pytest") + 1 if "pytest" in argv else len(argv)
    options, for_pytest = parser.parse_args(argv[:end]), argv[end:]
    console, directories = open_console(), find_directories()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the machine ends too
    try:
        if options.action in ("table", "scores", "pack"):
            _write(options, directories.root, console)
            return 0
        if options.action == "inject":
            return inject_all(options.out, options.names, directories, console)
        if os.geteuid() != 0:
            raise MissingPrerequisite(
                "the virtual machine's disks need root", where="vm", next_step="run it as root"
            )
        if options.action == "record" and options.kind == "emulated":
            record_emulated(directories.root / RECORDINGS / "emulated-operations.json")
            return 0
        return _with_machine(options, for_pytest, directories, console)
    except VolbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _write(options: argparse.Namespace, root: Path, console: Console) -> None:
    """Write what needs no machine: tables, scores, or the sample."""
    if options.action == "table":
        _write_tables(root)
    elif options.action == "scores":
        (root / TABLES / "injections.md").write_text(scored_page(), encoding="utf-8")
    else:
        for file in sorted(options.out.glob("*/injections.json")):
            console.say(str(pack(file.parent, read_before=options.read_before)))


def scored_page() -> str:
    """Return the page of the injections, from the sample with the rules as they are."""
    kernels: set[str] = set()
    read: list[tuple[Run, Proven]] = []
    for directory, kernel, proven in unpacked():
        kernels.add(kernel)
        read.extend(read_run(RunDirectory.open(directory), proven))
    return page(in_order(read), ", ".join(sorted(kernels)))


def _write_tables(root: Path) -> None:
    (root / TABLES).mkdir(parents=True, exist_ok=True)
    (root / TABLES / "stacks.md").write_text(table(), encoding="utf-8")
    if (fsx := root / RECORDINGS / "fsx-experiment.json").exists():
        (root / TABLES / "fsx-experiment.md").write_text(fsx_table(fsx), encoding="utf-8")
    if (power := root / RECORDINGS / "power-cuts.jsonl").exists():
        (root / TABLES / "power-cuts.md").write_text(power_table(power), encoding="utf-8")
    recorded = root / RECORDINGS / "nfs-operations.json"
    (root / TABLES / "nfs-operations.md").write_text(operations_table(recorded), encoding="utf-8")


def _with_machine(
    options: argparse.Namespace, for_pytest: list[str], locations: Directories, console: Console
) -> int:
    """Make the disks and, but for `image`, boot and run; returns the exit code of what ran."""
    image = ensure_image(locations, console)
    if options.action == "image":
        return 0
    kind = options.kind if options.action == "record" else ""
    devices = {"throttles": DEVICES, "power": POWER_DEVICES}.get(kind, FOUR_DEVICES)
    systemd = options.action == "run" and options.systemd
    with Machine(
        image,
        locations,
        nvme=SERVICE_DEVICES if systemd else devices,
        memory_mib=SERVICE_MEMORY_MIB if systemd else MEMORY_MIB,
        first_process=SYSTEMD if systemd else LAB_INIT,
    ) as machine:
        console.say(f"kernel {machine.kernel}, accelerator {machine.accelerator}")
        if options.action == "record":
            return _record(machine, image, options, locations.root / RECORDINGS, console)
        script = f"python3 -m pytest -p no:cacheprovider {shlex.join(for_pytest)}"
        if options.action == "run":
            script = options.script.read_text()
            for file in options.give:
                shutil.copy(file, machine.share)
        done = machine.run(script, limit_s=options.limit)
        sys.stdout.write(done.output)
        if options.action == "run" and options.collect:
            shutil.copytree(machine.share, options.collect, dirs_exist_ok=True)
    if done.code is None:
        print(f"vm: not done after {options.limit:g} s", file=sys.stderr)
    return MissingPrerequisite.exit_code if done.code is None else done.code


def _record(machine: Machine, image: Image, options: argparse.Namespace, directory: Path, console: Console) -> int:
    files = {
        "operations": (record_operations, "nfs-operations.json"),
        "fsx": (record_fsx, "fsx-experiment.json"),
        "write-log": (record_write_log, "write-log.bin"),
    }
    failed: list[str] = []
    if options.kind in files:
        record, name = files[options.kind]
        record(machine, directory / name)
    elif options.kind == "throttles":
        record_throttles(machine, directory / "throttles", console)
    elif options.kind == "power":
        names = options.names or conditions()["stacks"]
        failed = record_power(machine, image.root.with_name("root"), directory / "power-cuts.jsonl", names, console)
    else:
        failed = record_stacks(machine, directory / "stacks", options.names or stacks(), console)
    return MissingPrerequisite.exit_code if failed else 0


if __name__ == "__main__":
    sys.exit(main())
