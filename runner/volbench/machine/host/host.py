"""The server's machine: processors, memory, control groups, virtualization, container."""

from __future__ import annotations

import os
import platform
import re
import socket
from pathlib import Path, PurePosixPath

from volbench.core.records.facts import HostFacts
from volbench.machine.host.sysfs import read_text

ROOT = Path("/")
_INSTANCE_TYPE = re.compile(r"[a-z][a-z0-9-]*\.(nano|micro|small|medium|large|\d*xlarge|metal[-a-z0-9]*)")
_UNLIMITED_BYTES = 1 << 60  # v1 says "no limit" by a number near 2^63
_CONTAINER_CGROUP = re.compile(r"docker|kubepods|containerd|libpod|crio|lxc")
_DMI_VENDORS = {  # sys_vendor or product_name begins with -> what systemd-detect-virt calls it
    "QEMU": "kvm",
    "KVM": "kvm",
    "Amazon EC2": "amazon",
    "Google": "google",
    "VMware": "vmware",
    "VMW": "vmware",
    "innotek GmbH": "oracle",
    "VirtualBox": "oracle",
    "Xen": "xen",
    "Bochs": "bochs",
    "Parallels": "parallels",
    "BHYVE": "bhyve",
    "OpenStack": "kvm",
    "Alibaba Cloud ECS": "kvm",
}
_INITIAL_NAMESPACES = {"pid": 0xEFFFFFFC, "uts": 0xEFFFFFFE}  # fixed: include/linux/proc_ns.h of the kernel
_CLOCKS = "sys/devices/system/clocksource/clocksource0/available_clocksource"
_CLOCK_SOURCES = {"kvm-clock": "kvm", "hyperv_clocksource_tsc_page": "microsoft", "xen": "xen"}


def host_facts(*, root: Path = ROOT) -> HostFacts:
    """Return facts of this machine from its files, without network requests. `root` may be a recorded tree."""
    cpuinfo = read_text(root / "proc/cpuinfo") or ""
    dmi = _dmi(root)
    return HostFacts(
        hostname=os.environ.get("VOLBENCH_NODE") or socket.gethostname() or None,  # in a pod, its node
        kernel=platform.release(),
        cpu_model=_cpu_model(cpuinfo),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=memory_bytes(root=root),
        cgroup_version=cgroup_version(root=root),
        virtualization=_virtualization(root, cpuinfo, dmi),
        cloud_instance_type=_instance_type(dmi),
        container=in_container(root=root),
    )


def memory_bytes(*, root: Path = ROOT) -> int:
    """Return the machine's memory, or the smallest memory limit of this process's control groups."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", read_text(root / "proc/meminfo") or "", re.MULTILINE)
    total = int(match[1]) * 1024 if match else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *_memory_limits(root)])


def cgroup_version(*, root: Path = ROOT) -> int | None:
    """Return 2 if the unified hierarchy has the controllers, 1 if the old ones do; None without control groups."""
    if read_text(root / "sys/fs/cgroup/cgroup.controllers") is not None:
        return 2
    lines = (read_text(root / "proc/self/cgroup") or "").splitlines()
    return 1 if any(line.split(":")[1:2] not in ([""], []) for line in lines) else None


def in_container(*, root: Path = ROOT) -> bool:
    """Return whether this process is in a container: by the marks of engines, unless all namespaces are initial.

    A virtual machine whose disk was made from a container image has the marks too, but only initial namespaces.
    """
    if _in_initial_namespaces(root):
        return False
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    if root == ROOT and "KUBERNETES_SERVICE_HOST" in os.environ:
        return True
    if read_text(root / "run/systemd/container") is not None:
        return True
    return _CONTAINER_CGROUP.search(read_text(root / "proc/1/cgroup") or "") is not None


def _in_initial_namespaces(root: Path) -> bool:
    try:
        return all(
            os.readlink(root / "proc/self/ns" / name) == f"{name}:[{number}]"  # noqa: PTH115 - no path is in it
            for name, number in _INITIAL_NAMESPACES.items()
        )
    except OSError:
        return False


def _memory_limits(root: Path) -> list[int]:
    limits = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            top, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        own_group = PurePosixPath(group.lstrip("/"))
        for subgroup in (own_group, *own_group.parents):
            text = read_text(top / subgroup / name)
            if text is not None and text.isdecimal() and int(text) < _UNLIMITED_BYTES:
                limits.append(int(text))
    return limits


def _cpu_model(cpuinfo: str) -> str | None:
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else None


def _dmi(root: Path) -> dict[str, str]:
    names = ("sys_vendor", "product_name", "bios_vendor", "board_vendor")
    fields = {name: read_text(root / "sys/class/dmi/id" / name) for name in names}
    return {name: value for name, value in fields.items() if value is not None}


def _instance_type(dmi: dict[str, str]) -> str | None:
    product = dmi.get("product_name", "")
    is_ec2 = dmi.get("sys_vendor") == "Amazon EC2"
    return product if is_ec2 and _INSTANCE_TYPE.fullmatch(product) else None


def _virtualization(root: Path, cpuinfo: str, dmi: dict[str, str]) -> str | None:
    """Return systemd-detect-virt's name; "vm-other" for an unknown hypervisor, "none" for bare metal."""
    if ".metal" in (_instance_type(dmi) or ""):
        return "none"
    if dmi.get("sys_vendor", "").startswith("Microsoft") and dmi.get("product_name") == "Virtual Machine":
        return "microsoft"
    for value in dmi.values():
        for beginning, name in _DMI_VENDORS.items():
            if value.startswith(beginning):
                return "qemu" if beginning == "QEMU" and _emulates_processors(root, cpuinfo) else name
    return _hypervisor_traces(root, cpuinfo)


def _emulates_processors(root: Path, cpuinfo: str) -> bool:
    """Return whether QEMU runs without KVM, by its processor's name, or as an x86 is offered no clock of KVM."""
    if (_cpu_model(cpuinfo) or "").startswith("QEMU TCG"):
        return True
    clocks = read_text(root / _CLOCKS)
    return clocks is not None and "kvm-clock" not in clocks.split() and "hypervisor" in cpuinfo


def _hypervisor_traces(root: Path, cpuinfo: str) -> str | None:
    """Return the same without DMI: by Xen's directory, the clock sources and the processor's hypervisor flag."""
    if read_text(root / "sys/hypervisor/type") == "xen":
        return "xen"
    clocks = read_text(root / _CLOCKS) or ""
    for clock in clocks.split():
        if clock in _CLOCK_SOURCES:
            return _CLOCK_SOURCES[clock]
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None:
        return None
    return "vm-other" if "hypervisor" in flags[1].split() else "none"
