"""The configuration of the sampling process: one JSON file, written by the process that starts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from volbench.core.base.parse import parse_json

RAW_FILE = "raw/samples.jsonl"
"""In a cell's directory: the readings."""
LAUNCHED = b"launched\n"
"""What a process writes that waits for its configuration, once its modules are imported."""
READY = b"ready\n"
"""What the process writes when it has begun."""
STDIN = "-"
"""As the process's argument: the name of the configuration's file comes as a line of standard input."""
INTERVAL_S_MIN, INTERVAL_S_MAX = 0.1, 60.0
_PATHS = (
    "raw_file",
    "node_helper",
    "mount_point",
    "cgroup_dir",
    "server_state",
    "option_file",
    "socket",
    "emulator_socket",
    "task_file",
)


@dataclass(frozen=True, kw_only=True)
class ComponentConfig:
    """The devices of one component of a layout; the names are those of `SamplingConfig`."""

    component: str
    disks: tuple[str, ...] = ()
    nvme_devices: tuple[str, ...] = ()
    mount_point: str = ""
    emulator_socket: str = ""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Where the sources are. An empty path or name: that source is absent, and says so.

    Args:
        raw_file: readings are appended here, one line a tick.
        zero_monotonic_ns: the cell's zero; ticks are due at whole multiples of the interval after it.
        interval_s: 0.1 .. 60.
        sources: names wanted; None: all there are.
        disks: kernel names for diskstats, whole disks.
        nvme_devices: device files for the EBS log page, such as /dev/nvme1n1.
        node_helper: socket of the node's privileged helper, which reads that page for a pod.
        ebs_csi_url, ebs_volume_id: metrics of the EBS CSI driver, and the volume of the data directory in them.
        mount_point: the data directory's mount, for NFS.
        cgroup_dir: directory with the server's I/O account (`cgroup_io.find_directory`).
        server_state: the supervisor's state file of a server that is a process of this machine; its groups are
            looked up at each tick, and the two rows above and below do not count then.
        server_cpu_files, client_cpu_files: their CPU accounts (`cgroup_cpu.find_cpu_files`).
        over_tcp: the server is somebody's who gave its address for a load: a network may be in between.
        option_file, socket: how the server is reached; credentials are in the option file only.
        emulator_socket: control socket of the emulated volume.
        components: of a layout, the devices of its other volumes.
        server_pids, client_pids: roots of the server's process trees and of the agent's, as seen from here.
        task_file: what a process outside tells of the cell's processes (`task_account.keep_task_file`).
        read_only: the server is somebody else's: nothing of it is configured, not even for our own connection.
        parent_pid: sampling ends when this process is no longer the parent; 0: whoever is at the start.
    """

    raw_file: str
    zero_monotonic_ns: int
    interval_s: float = 1.0
    sources: tuple[str, ...] | None = None
    disks: tuple[str, ...] = ()
    nvme_devices: tuple[str, ...] = ()
    node_helper: str = ""
    ebs_csi_url: str = ""
    ebs_volume_id: str = ""
    mount_point: str = ""
    cgroup_dir: str = ""
    server_state: str = ""
    server_cpu_files: tuple[str, ...] = ()
    client_cpu_files: tuple[str, ...] = ()
    over_tcp: bool = False
    option_file: str = ""
    socket: str = ""
    emulator_socket: str = ""
    components: tuple[ComponentConfig, ...] = ()
    server_pids: tuple[int, ...] = ()
    client_pids: tuple[int, ...] = ()
    task_file: str = ""
    read_only: bool = False
    parent_pid: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for an interval outside its bounds."""
        if not INTERVAL_S_MIN <= self.interval_s <= INTERVAL_S_MAX:
            raise ValueError(
                f"an interval of {self.interval_s} s is outside {INTERVAL_S_MIN} .. {INTERVAL_S_MAX} s"
            )

    def with_absolute_paths(self) -> SamplingConfig:
        """Return it for a process with another working directory."""
        absolute: dict[str, Any] = {
            name: str(Path(path).absolute()) for name in _PATHS if (path := getattr(self, name))
        }
        return replace(self, **absolute)

    def to_json(self) -> str:
        """Return the configuration as one JSON object, which holds no password."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read_config(path: Path) -> SamplingConfig:
    """Return the configuration in a file. Raises OSError, ValueError or TypeError for one that is none."""
    raw = parse_json(path.read_text())
    components = tuple(ComponentConfig(**_with_tuples(component)) for component in raw.get("components", ()))
    return SamplingConfig(**{**_with_tuples(raw), "components": components})


def _with_tuples(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
