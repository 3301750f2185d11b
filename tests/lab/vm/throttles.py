"""Records diskstats of loads behind QEMU's throttle groups, a burst bucket among them: limits not made by us."""

from __future__ import annotations

from pathlib import Path

from bootstrap.console import Console
from vm.machine import Machine, Nvme

DEVICES = (
    Nvme(throttle={"iops-total": 150, "iops-total-max": 900, "iops-total-max-length": 20}),
    Nvme(throttle={"iops-total": 150}),
    Nvme(throttle={"iops-total": 300}),
    Nvme(throttle={"iops-total": 600}),
)
"""`volume0` to `volume3`, by their serial numbers."""
LOAD_S = 60
COMMITS = "--rw=randwrite --bs=16k --fdatasync=1 --numjobs={jobs} --group_reporting --ioengine=psync"
LOADS = {
    "burst-bucket-empties": (0, COMMITS.format(jobs=2)),
    "limit-150-commits": (1, COMMITS.format(jobs=2)),
    "limit-300-commits": (2, COMMITS.format(jobs=2)),
    "limit-150-depth-8": (1, "--rw=randread --bs=16k --direct=1 --ioengine=libaio --iodepth=8"),
}
"""File to number of the device and options of fio."""
NEIGHBOUR = "neighbour-on-another-logical-volume"
INSIDE = "mkdir -p /share/throttles\nDUMP=/opt/volbench/tree/tests/lab/vm/dump_diskstats.py\n"


def record_throttles(machine: Machine, directory: Path, console: Console) -> None:
    """Write one file in the format of pt-stalk for each load. Raises MissingPrerequisite when one fails."""
    directory.mkdir(parents=True, exist_ok=True)
    scripts = {name: _script(name, number, options) for name, (number, options) in LOADS.items()}
    scripts[NEIGHBOUR] = _neighbour()
    for name, script in scripts.items():
        if (directory / f"{name}.txt").exists():
            continue
        machine.checked(script, limit_s=LOAD_S * 5.0)
        (directory / f"{name}.txt").write_bytes((machine.share / "throttles" / f"{name}.txt").read_bytes())
        console.say(f"{name}: recorded")


def _script(name: str, number: int, options: str) -> str:
    return f"""{INSIDE}D=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume{number})
python3 $DUMP /share/throttles/{name}.txt {LOAD_S} ${{D##*/}} &
fio --name=load --filename=$D --size=512M {options} --time_based --runtime={LOAD_S}
wait %1
"""


def _neighbour() -> str:
    """Commits on one logical volume; after a third of the time, reads of another on the same disk, for a third."""
    return f"""{INSIDE}D=$(readlink -f /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume3)
mkdir -p /run/lvm /run/lock
vgcreate -qq vg $D; lvcreate -qq -y -n data -L 300M vg; lvcreate -qq -y -n other -L 300M vg
python3 $DUMP /share/throttles/{NEIGHBOUR}.txt {LOAD_S} ${{D##*/}} dm-0 dm-1 &
(sleep {LOAD_S // 3}; fio --name=other --filename=/dev/vg/other --size=256M --rw=randread --bs=16k --direct=1 \\
  --ioengine=libaio --iodepth=8 --time_based --runtime={LOAD_S // 3}) &
fio --name=load --filename=/dev/vg/data --size=256M {COMMITS.format(jobs=1)} --time_based --runtime={LOAD_S}
wait
vgchange -qq -an vg; vgremove -qq -ff -y vg
"""
