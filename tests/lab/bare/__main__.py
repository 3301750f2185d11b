"""Runs commands on a bare Debian: a minimal root file system, namespaces of its own, a clone of the work tree.

python3 tests/lab/bare [--suite bookworm|trixie] [--no-cache] [--keep] [--time-limit SECONDS] -- COMMAND...
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "runner"))

from cgroups import CgroupTree
from loop_devices import detach_loop_devices
from network import Network
from root_filesystem import CLONE, SUITES, clone_work_tree, configure, share_caches, unpack

from bootstrap.command import run
from bootstrap.console import Console, open_console
from bootstrap.directories import Directories, find_directories
from bootstrap.packages import install, program
from volbench.errors import EXIT_INTERRUPTED, MissingPrerequisite, VolbenchError

NEEDS = (
    program("debootstrap", reason="makes the bare root file system"),
    program("ip", "iproute2", reason="the bare machine's network"),
    program("iptables", reason="the bare machine's way to the package archives"),
    program("unshare", "util-linux", reason="the bare machine's namespaces"),
)
INSIDE = Path(__file__).resolve().parent / "inside.py"
TIME_LIMIT_S = 4800.0
END_LIMIT_S = 30.0
REMOVAL_LIMIT_S = 3600.0
"""A gigabyte of small files took more than five minutes to remove on a machine at load 20."""


def main(arguments: list[str] | None = None) -> int:
    """Run the commands; returns the exit code of the first that failed, 0 when all passed."""
    parser = argparse.ArgumentParser(
        prog="bare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=SUITES, default="bookworm")
    parser.add_argument("--no-cache", action="store_true", help="share no downloads with this machine")
    parser.add_argument("--keep", action="store_true", help="leave the root file system where it is")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, help="seconds for all commands together")
    parser.add_argument("commands", nargs="+")
    options = parser.parse_args(arguments)
    console = open_console()
    directories = find_directories()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stopped job is cleaned up like an interrupted one
    try:
        if os.geteuid() != 0:
            raise MissingPrerequisite(
                what="a bare machine needs root", where="test-bare", next_step="run it as root"
            )
        install(NEEDS, directories, console)
        return _run_commands(options, directories, console)
    except VolbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the bare machine is removed", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run_commands(options: argparse.Namespace, locations: Directories, console: Console) -> int:
    with ExitStack() as cleanup:
        directory = Path(tempfile.mkdtemp(prefix="volbench-bare-", dir="/var/tmp"))
        if not options.keep:
            cleanup.callback(_remove, directory, locations)
        root = directory / "root"
        console.say(f"unpacking Debian {options.suite} into {root}")
        unpack(options.suite, root, locations, console)
        configure(root)
        clone_work_tree(locations.root, root, console)
        cleanup.callback(detach_loop_devices, directory)
        network = cleanup.enter_context(Network(name=directory.name))
        cgroups = cleanup.enter_context(CgroupTree(name=directory.name))
        shared = [] if options.no_cache else share_caches(root, options.suite, locations, cleanup)
        argv = [
            "nsenter",
            f"--net={network.namespace}",
            "unshare",
            "--mount",
            "--pid",
            "--uts",
            "--ipc",
            "--cgroup",
            "--fork",
            "--kill-child=KILL",
            "--propagation=private",
            sys.executable,
            str(INSIDE),
            str(root),
            CLONE,
            *map(_pair, shared),
            "--",
            *options.commands,
        ]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=cgroups.enter)  # noqa: PLW1509 - no thread runs here
        cleanup.callback(_end, process)
        try:
            return process.wait(timeout=options.time_limit)
        except subprocess.TimeoutExpired:
            print(f"bare machine: not done after {options.time_limit:g} s", file=sys.stderr)
            return MissingPrerequisite.exit_code


def _pair(shared: tuple[Path, Path]) -> str:
    return f"{shared[0]}={shared[1]}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the commands, so that they clean up; later, kill the first process of the namespace and so all."""
    if process.poll() is not None:
        return
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGTERM)
    try:
        process.wait(timeout=END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove(directory: Path, locations: Directories) -> None:
    """Remove the root file system, of which nothing is mounted any more."""
    mounted = [
        line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {directory}" in line
    ]
    for location in reversed(mounted):
        subprocess.run(["umount", "--lazy", location], check=False)
    run(
        ["rm", "-rf", "--one-file-system", str(directory)],
        log=locations.log("bare"),
        label=f"removing {directory}",
        timeout_s=REMOVAL_LIMIT_S,
    )


if __name__ == "__main__":
    if not shutil.which("ip"):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main())
