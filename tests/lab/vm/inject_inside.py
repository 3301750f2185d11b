"""Inside the machine: one run of volbench on a stack, while each of its steps gets an injection.

python3 inject_inside.py /share/campaign.json

The run is in a control group of a service in a slice. Counters that volbench does not make are written once a
second.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volbench.measure.execute.cell.progress import AgentProgress, read_progress

SHARE = Path("/share")
SLICE, SERVICE = Path("/sys/fs/cgroup/lab.slice"), Path("/sys/fs/cgroup/lab.slice/mysql.service")
INJECTION = Path("/sys/fs/cgroup/injection")
"""The group of what an injection starts. fio leaves its session, and a kill of that session left it reading."""
CLIENT = SLICE / "client"
"""An empty group, which an injection may move the load generator to."""
DATA = Path("/mnt/data")
VOLUME, FOREIGN = DATA / "volume", DATA / "foreign.bin"
FOREIGN_MIB = 64
POLL_S = 0.1
CONTRAST_S_MAX = 90.0
"""For the rest of a load on emulated processors, and the contrast of sizes after it."""
LOAD = re.compile(r"transaction|fio: (?!writing)|contrast of sizes")
ANSWER_LIMIT_S = 60.0
LETTERS = "ABCD"
DISKSTATS = {"reads": 3, "read_sectors": 5, "read_ms": 6, "writes": 7, "write_sectors": 9, "write_ms": 10,
             "flushes": 18, "flush_ms": 19}  # fmt: skip
"""Fields by their position (Linux: Documentation/admin-guide/iostats.rst)."""
HOGS = f"""echo 100 >{INJECTION}/cpu.weight
hogs() {{ echo $1 >{INJECTION}/cpu.weight; for n in 1 2; do sh -c 'while :; do :; done' & done; }}"""
"""Two busy loops with this weight of their group; the service's group has 100."""
HOLD_MEMORY = """hold_memory() {
  H=$(cat $SERVICE/memory.current) T=
  while sleep 0.4; do
    read -r some <$SERVICE/memory.pressure; N=${some##*=}
    [ $((N - ${T:=$N})) -ge 120000 ] || H=$((H * 92 / 100))
    [ $((N - T)) -le 320000 ] || H=$((H * 105 / 100))
    echo $H >$SERVICE/memory.high; T=$N
  done
}"""
"""Moves the service's memory.high to where its tasks wait for memory in 30 to 80 % of the time."""
THROTTLE = """throttle() { printf %s "$1" >/share/throttle.next; mv /share/throttle.next /share/throttle.json; }"""
"""Has QEMU set its throttle groups within a step, as `set_throttle` does at its begin and end."""
SQL = r"""sql() {
  P=$(tr '\0' '\n' </proc/$(pgrep -ox mariadbd)/cmdline | sed -n 's|^--defaults-file=\(.*\)/my.cnf$|\1|p')
  mariadb --defaults-file=$P/client.cnf "$@"
}
end_sql() {
  sql -N -e "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist
    WHERE info LIKE 'SELECT SLEEP%' OR info LIKE 'SELECT MAX%FOR UPDATE'" | sql
}"""
"""A client of the server with volbench's account, and the end of its sessions, which sleep on without it."""
VARIABLES = "\n".join(
    f"{letter}=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume{number})"
    for number, letter in enumerate(LETTERS)
)


class Counters:
    """Writes disks' and control groups' counters once a second, from a thread."""

    def __init__(self, file: Path) -> None:
        self._file, self._over = file, threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Counters:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    def _follow(self) -> None:
        with self._file.open("w") as out:
            while not self._over.wait(1.0):
                out.write(json.dumps({"t_s": time.monotonic(), **dict(counters())}) + "\n")
                out.flush()


def counters() -> Iterator[tuple[str, float]]:
    """All that are asked for by a proof: `disk.NAME.reads` and others, `memory.high`, `cpu.throttled_usec`.

    `memory.waited_us` is the time in which a task of the service waited for memory, `injection.usage_usec` the CPU
    time of what an injection started, `client.throttled_usec` the time for which a quota held the client's group,
    `net.lo.bytes` what the loopback device carried.
    """
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        for name, position in DISKSTATS.items():
            yield f"disk.{fields[2]}.{name}", int(fields[position])
    for file, prefix in (("memory.events", "memory"), ("cpu.stat", "cpu")):
        for line in (SERVICE / file).read_text().splitlines():
            name, value = line.split()
            yield f"{prefix}.{name}", int(value)
    some = (SERVICE / "memory.pressure").read_text().splitlines()[0]
    yield "memory.waited_us", int(some.rpartition("total=")[2])
    yield "injection.usage_usec", int((INJECTION / "cpu.stat").read_text().split()[1])
    throttled = re.search(r"throttled_usec (\d+)", (CLIENT / "cpu.stat").read_text())
    yield "client.throttled_usec", int(throttled[1]) if throttled else 0
    yield "net.lo.bytes", int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    for line in (SERVICE / "io.stat").read_text().splitlines():
        device, *pairs = line.split()
        for pair in pairs:
            name, _, value = pair.partition("=")
            yield f"group.{device}.{name}", int(value)


class Injection:
    """What acts during one step."""

    def __init__(self, spec: dict[str, Any], environment: str) -> None:
        self.spec, self._environment = spec, environment
        self._running: subprocess.Popen[bytes] | None = None
        self.record: dict[str, Any] = {"name": spec["name"], "errors": []}

    def begin(self) -> None:
        """Switch it on."""
        if "throttle" in self.spec:
            set_throttle(self.spec["throttle"])
        if "begin" in self.spec:
            self._running = self._bash(self.spec["begin"])
        self.record["on_s"] = time.monotonic()

    def end(self) -> None:
        """Switch it off; what could not be switched is in the record."""
        self.record["off_s"] = time.monotonic()
        if self._running is not None:
            if self._running.poll():
                self.record["errors"].append(f"begin: exit code {self._running.returncode}")
            (INJECTION / "cgroup.kill").write_text("1")
            self._running.wait(timeout=30)
        if "throttle" in self.spec:
            set_throttle({letter: {} for letter in self.spec["throttle"]})
        if "end" in self.spec:
            self._bash(self.spec["end"]).wait(timeout=120)

    def _bash(self, script: str) -> subprocess.Popen[bytes]:
        log = (SHARE / "injections.log").open("ab")
        return subprocess.Popen(
            ["bash", "-xc", f"echo $$ >{INJECTION}/cgroup.procs\n{self._environment}\n{script}"],
            stdout=log,
            stderr=log,
        )


def set_throttle(limits: dict[str, Any]) -> None:
    """Have QEMU set its throttle groups: asked for by a file, answered by its removal."""
    request = SHARE / "throttle.json"
    partial = request.with_suffix(".partial")
    partial.write_text(json.dumps(limits))
    partial.rename(request)
    deadline = time.monotonic() + ANSWER_LIMIT_S
    while request.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("QEMU's throttle was not set")
        time.sleep(0.05)


def main(campaign: Path) -> None:
    """Make the stack, run, inject; results and counters stay in the shared directory."""
    spec = json.loads(campaign.read_text())
    make_groups()
    DATA.mkdir(exist_ok=True)
    Path("/mnt/other").mkdir(exist_ok=True)
    for directory in ("/run/lvm", "/run/lock"):
        Path(directory).mkdir(exist_ok=True)
    subprocess.run(["bash", "-euxc", f"{VARIABLES}\n{spec['make']}"], check=True)
    VOLUME.mkdir()
    with FOREIGN.open("wb") as file:
        file.write(os.urandom(FOREIGN_MIB << 20))
    os.sync()
    (SHARE / "suite.json").write_text(json.dumps(spec["suite"]))
    (SHARE / "disks.json").write_text(json.dumps(disks()) + "\n")
    with Counters(SHARE / "counters.jsonl"):
        records = follow(spec)
    (SHARE / "injections.json").write_text(json.dumps(records, indent=1) + "\n")


def disks() -> dict[str, str]:
    """The kernel's names by letter: the order in which it finds devices differs from boot to boot."""
    links = {letter: f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume{number}" for number, letter in enumerate(LETTERS)}
    return {letter: Path(link).resolve().name for letter, link in links.items()}


def make_groups() -> None:
    """A service in a slice, with the controllers of a system that runs systemd."""
    SERVICE.mkdir(parents=True, exist_ok=True)
    INJECTION.mkdir(exist_ok=True)
    for group in (SLICE.parent, SLICE):
        (group / "cgroup.subtree_control").write_text("+io +cpu +memory")
    CLIENT.mkdir(exist_ok=True)


def environment() -> str:
    """Variables of the scripts."""
    return f"""{VARIABLES}
SLICE={SLICE} SERVICE={SERVICE} CLIENT={CLIENT} FOREIGN={FOREIGN}
NUMBER=$(cat /sys/class/block/${{A##*/}}/dev) SECTORS=$(blockdev --getsz $A)
{HOGS}
{HOLD_MEMORY}
{THROTTLE}
{SQL}"""


def follow(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Run volbench, and switch each injection when its step begins and ends."""
    results = Path("/root/results")
    command = [
        "sh", "-c", f'echo $$ >{SERVICE}/cgroup.procs && exec "$@"', "sh",
        sys.executable, "-m", "volbench", "run", str(SHARE / "suite.json"), "--target", "local",
        "--volume", f"v=path:{VOLUME}", "--yes", "--out", str(results),
    ]  # fmt: skip
    records = []
    with (SHARE / "volbench.log").open("wb") as log:
        run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            after = ""
            for injection in [Injection(injection, environment()) for injection in spec["injections"]]:
                if not wait_for_begin(run, results, injection.spec, after):
                    break
                after = injection.spec["step"]["kind"]
                injection.begin()
                try:
                    wait_for_end(run, results, spec["step_s"])
                    if injection.spec["contrast"]:
                        wait_for_contrast(run, results)
                finally:
                    injection.end()
                records.append(injection.record)
            run.wait(timeout=900)
        finally:
            run.kill()
            subprocess.run(["cp", "-r", str(results), str(SHARE / "results")], check=False)
    return records


def progress_of(results: Path) -> AgentProgress | None:
    """Of the cell that runs."""
    cells = sorted(results.glob("*/cells/[0-9]*"))
    return read_progress(cells[-1]) if cells else None


def wait_for_begin(run: subprocess.Popen[bytes], results: Path, spec: dict[str, Any], after: str) -> bool:
    """Until the load of a step has begun, which follows one of the kind `after`; False when the run ended first."""
    kind = spec["step"]["kind"]
    pattern = re.compile(r"fio: (?!writing)" if kind == "fio" else r"transaction")
    is_new = after != kind or kind != "fio"  # the fraction of a step of fio stays as it is
    while run.poll() is None:
        progress = progress_of(results)
        begun = progress and pattern.search(progress.text) and (progress.fraction or 0.0) < 0.5
        if begun and is_new:
            return True
        is_new = is_new or not begun
        time.sleep(POLL_S)
    return False


def wait_for_end(run: subprocess.Popen[bytes], results: Path, step_s: float) -> None:
    """Until the step's time is over, or its progress says so."""
    deadline = time.monotonic() + step_s
    while run.poll() is None and time.monotonic() < deadline:
        progress = progress_of(results)
        if progress and (progress.fraction or 0.0) >= 0.999:
            return
        time.sleep(POLL_S)


def wait_for_contrast(run: subprocess.Popen[bytes], results: Path) -> None:
    """Until neither the load nor the contrast of sizes after it is under way."""
    deadline = time.monotonic() + CONTRAST_S_MAX
    while run.poll() is None and time.monotonic() < deadline:
        progress = progress_of(results)
        if progress is None or not LOAD.search(progress.text):
            return
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
