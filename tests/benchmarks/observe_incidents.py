"""How often `volbench observe` names an incident that was made on purpose, and how late its begin is.

    unshare --mount --propagation private python tests/benchmarks/observe_incidents.py --rounds 8 --seed 1

(In a mount namespace of its own, so that containers that start meanwhile do not keep its volumes mounted.)

Each round has a moment drawn by the seed: a stall of 3 s, mysqldump, a gp2 volume whose credits run out, or fio
that reads from the server's volume.
The server is the local mariadbd on an emulated volume with a load at a fixed rate; the observation runs with the
triggers below. A round is right when the cause is among those of an incident, or of all of the time, and was not
there before; the delay is that of the cause's window (or the incident's onset) behind the moment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parents[2] / "runner")]

from scratch_server import ScratchServer

from volbench.core.profile.resolve import resolve
from volbench.machine.volume.emulated.teardown import take_down
from volbench.machine.volume.emulated.volume import EmulatedVolume

KINDS = {
    "stall": "storage.stall",
    "dump": "interference.backup",
    "credits": "storage.burst_exhausted",
    "neighbour": "interference.io",
}
STEADY_S, AFTER_S, NEIGHBOUR_S = 25.0, 30.0, 12.0
ROWS = 200_000
"""Of each table: a dump then takes some seconds on the volume."""
TRIGGERS = ("stalled > 1s", "await > 20ms for 3s", "statement_time > 5ms for 3s")


def sysbench(server: ScratchServer, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            "sysbench",
            f"--mysql-socket={server.socket}",
            "--mysql-user=root",
            "--mysql-db=app",
            "--tables=4",
            f"--table-size={ROWS}",
            "--threads=4",
            "--db-ps-mode=disable",
            "oltp_read_write",
            *arguments,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def fio(volume: EmulatedVolume) -> list[str]:
    """Random reads past the page cache, more than the volume gives."""
    return [
        "fio",
        "--name=neighbour",
        f"--directory={volume.data}",
        "--size=256M",
        "--rw=randread",
        "--bs=16k",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=16",
    ]


def one_round(kind: str, after_s: float, rate: int) -> dict[str, Any]:
    base = Path(tempfile.mkdtemp(prefix="vbo", dir="/var/tmp"))
    profile, options = ("ebs-gp2", {"size": "4GiB"}) if kind == "credits" else ("ebs-gp3", {"size": "4GiB"})
    volume = EmulatedVolume(resolve(profile, options), base / "volumes", name="v")
    try:
        with volume:
            data = volume.data / "server"
            data.mkdir()
            server = ScratchServer(
                base,
                "--innodb-flush-log-at-trx-commit=1",
                "--innodb-flush-method=O_DIRECT",
                "--log-bin=bin",
                "--sync-binlog=1",
                data_on=data,
            )
            server.create()
            server.start()
            try:
                return _observed(kind, server, volume, base / "observed", after_s, rate)
            finally:
                server.stop()
    finally:
        for directory in (base / "volumes").iterdir():
            take_down(directory, force=True)
        shutil.rmtree(base, ignore_errors=True)


def _observed(
    kind: str, server: ScratchServer, volume: EmulatedVolume, out: Path, after_s: float, rate: int
) -> dict[str, Any]:
    server.query("CREATE DATABASE app")
    if kind == "neighbour":
        subprocess.run([*fio(volume), "--create_only=1"], stdout=subprocess.DEVNULL, check=True)
    assert sysbench(server, "prepare").wait(300) == 0
    load = sysbench(server, f"--rate={rate}", "--time=0", "run")
    watching = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "volbench",
            "observe",
            "--allow-privileged",
            "--server",
            f"mysql://root@localhost?socket={server.socket}",
            "--out",
            str(out),
            "--quiet",
            *(argument for item in TRIGGERS for argument in ("--on", item)),
        ],
        env={**os.environ, "PYTHONPATH": "runner"},
    )
    try:
        time.sleep(after_s)
        made_at = time.time()
        if kind == "stall":
            volume.fault("stall", seconds=3.0)
        elif kind == "credits":
            volume.fault("credits", fill=0.0)
        elif kind == "neighbour":
            subprocess.run(
                [*fio(volume), "--time_based", f"--runtime={NEIGHBOUR_S:.0f}"],
                stdout=subprocess.DEVNULL,
                check=True,
            )
        else:
            subprocess.run(
                ["mysqldump", f"--socket={server.socket}", "--user=root", "--single-transaction", "app"],
                stdout=subprocess.DEVNULL,
                check=True,
            )
        time.sleep(AFTER_S)
    finally:
        watching.send_signal(signal.SIGINT)
        watching.wait(60)
        load.terminate()
        load.wait()
    subprocess.run(
        [sys.executable, "-m", "volbench", "observe", "report", str(out)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": "runner"},
    )
    return judged(KINDS[kind], json.loads((out / "report.json").read_text()), made_at)


def judged(cause: str, report: dict[str, Any], made_at: float) -> dict[str, Any]:
    zero_s = report["observation"]["zero_epoch_s"]
    fresh = [
        (row, incident["onset_s"])
        for incident in report["incidents"]
        for row in incident["findings"]
        if not row["also_before"]
    ]
    fresh += [(row, row["window_s"][0]) for row in report["findings"]]
    named = [item for item in fresh if item[0]["cause"] == cause]
    delays = [
        min((row["window_s"][0], onset_s), key=lambda at: abs(zero_s + at - made_at)) for row, onset_s in named
    ]
    late_s = min((zero_s + at - made_at for at in delays), key=abs, default=None)
    return {
        "named": bool(named),
        "late_s": late_s,
        "incidents": [incident["trigger"] for incident in report["incidents"]],
        "causes": sorted({row["cause"] for row, _ in fresh}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=40)
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    source = random.Random(args.seed)
    kinds = args.kinds.split(",")
    results = []
    for number in range(args.rounds):
        kind, after_s = kinds[number % len(kinds)], STEADY_S + source.uniform(0, 10)
        result = one_round(kind, after_s, args.rate)
        results.append(result)
        late = "" if result["late_s"] is None else f", begin {result['late_s']:+.1f} s"
        verdict = "named" if result["named"] else "NOT named"
        print(f"{kind}: {verdict}{late}; {result['causes']}; {result['incidents']}", flush=True)
    named = sum(result["named"] for result in results)
    near = sum(result["late_s"] is not None and abs(result["late_s"]) <= 2 for result in results)
    print(f"{named} of {len(results)} named, {near} with their begin within 2 s")


if __name__ == "__main__":
    main()
