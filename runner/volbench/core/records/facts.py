"""Facts: what was found out about the volume, the host and the server of a cell."""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import Record, Scalar

STACKED_DEVICES = ("dm-", "md", "bcache")
"""How kernel names of devices begin that lie on other devices and count no flushes."""


class VolumeFacts(Record):
    """What is behind a data directory. None: could not be found out (never guessed)."""

    path: str
    filesystem: str | None = None
    mount_point: str | None = None
    mount_source: str | None = None
    mount_options: tuple[str, ...] = ()
    device: str | None = Field(default=None, description="Kernel name of the block device, e.g. nvme1n1p1.")
    device_number: str | None = Field(default=None, description="major:minor of the mount, as in mountinfo.")
    disk: str | None = Field(default=None, description="Whole disk that carries the device: what is sampled.")
    disk_model: str | None = None
    scheduler: str | None = None
    read_ahead_kib: int | None = None
    rotational: bool | None = None
    logical_block_bytes: int | None = None
    atomic_write_bytes: int | None = Field(
        default=None,
        description="Largest aligned write that the device does whole or not at all, says the kernel; 0: none.",
    )
    size_bytes: int | None = Field(default=None, description="Size of the filesystem.")
    free_bytes: int | None = None
    loop_backing_file: str | None = None
    loop_direct_io: bool | None = Field(default=None, description="The loop device bypasses the page cache.")
    lower_devices: tuple[str, ...] = Field(
        default=(), description="Physical disks below a stacked device (device mapper, md, bcache), or of a btrfs."
    )
    stack: dict[str, str] = Field(
        default_factory=dict,
        description="Whole disks from the filesystem's device down to the physical ones, each with its kind.",
    )
    journal_devices: tuple[str, ...] = Field(
        default=(), description="Of a log or journal outside the filesystem's device: that device, and disks below."
    )
    nfs_server: str | None = None
    nfs_export: str | None = None
    nfs_version: str | None = None
    overlay: bool = Field(default=False, description="On an overlay filesystem: a container layer, not a volume.")
    memory_backed: bool = Field(default=False, description="tmpfs or ramfs: no device behind it.")
    claim: str | None = Field(default=None, description="In a cluster: the claim's name.")
    claim_uid: str | None = None
    persistent_volume: str | None = Field(default=None, description="What the claim is bound to.")
    persistent_volume_uid: str | None = Field(
        default=None, description="Another uid is another volume. None: no right to read PersistentVolumes."
    )
    class_driver: str | None = Field(default=None, description="In a cluster: provisioner of the claim's class.")
    class_parameters: dict[str, str] = Field(
        default_factory=dict,
        description="Of the claim's storage class, then of its VolumeAttributesClass; without names of secrets.",
    )
    class_is_newer: bool = Field(
        default=False, description="The class was made after the volume: its parameters may not be the volume's."
    )
    foreign_pods: tuple[str, ...] = Field(
        default=(), description="In a cluster: pods, not of the run, that mounted the claim while the cell ran."
    )
    emulated_profile: str | None = None
    emulated_parameters: dict[str, Scalar] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def physical_disks(self) -> tuple[str, ...]:
        """Disks with data or journal and none below them: these count flushes, and may be volumes of a cloud."""
        carriers = self.lower_devices or ((self.disk,) if self.disk is not None else ())
        journal = tuple(name for name in self.journal_devices if not name.startswith(STACKED_DEVICES))
        return tuple(dict.fromkeys((*carriers, *journal)))

    @property
    def counted_disks(self) -> tuple[str, ...]:
        """Every whole disk whose counters belong to the volume; the device that the filesystem uses comes first."""
        first = (self.disk,) if self.disk is not None else ()
        return tuple(dict.fromkeys((*first, *self.stack, *self.lower_devices, *self.journal_devices)))


class HostFacts(Record):
    """The server's machine."""

    hostname: str | None = None
    kernel: str
    cpu_model: str | None = None
    cpus: int = Field(description="CPUs this process may use.")
    memory_bytes: int
    cgroup_version: int | None = None
    virtualization: str | None = None
    cloud_instance_type: str | None = None
    zone: str | None = Field(default=None, description="Of a node of a cluster.")
    kubelet: str | None = Field(default=None, description="Version of the node's kubelet.")
    container_runtime: str | None = Field(default=None, description="Of a node of a cluster, with its version.")
    container: bool = False
    tools: dict[str, str] = Field(
        default_factory=dict, description="Tool name to version: sysbench, mysqldump, ..."
    )


class ServerFacts(Record):
    """The server as it says of itself: @@global values, never assumed defaults."""

    flavor: str
    version: str
    version_comment: str = ""
    variables: dict[str, str] = Field(default_factory=dict)
    absent: dict[str, str] = Field(
        default_factory=dict,
        description="What this server cannot show, with the reason (statement histograms, ...).",
    )
