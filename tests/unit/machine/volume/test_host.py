"""Host facts: from recorded trees of an EC2 instance, bare metal and a pod, and from this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from volbench.machine.host.host import cgroup_version, host_facts, in_container, memory_bytes

MEMINFO = "MemTotal:       16384000 kB\nMemFree:         1000 kB\n"
CPUINFO = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8259CL\nflags\t\t: fpu vme{flag} sse\n"


class Tree:
    """A root directory with the files that a machine would show."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file("proc/meminfo", MEMINFO)
        self.file("proc/cpuinfo", CPUINFO.format(flag=" hypervisor"))
        self.file("proc/self/cgroup", "0::/\n")
        self.file("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids")

    def file(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_ec2_instance(tree: Tree) -> None:
    """Vendor and instance type come from DMI alone."""
    tree.file("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    tree.file("sys/class/dmi/id/product_name", "m5.4xlarge\n")
    facts = host_facts(root=tree.root)
    assert (facts.virtualization, facts.cloud_instance_type) == ("amazon", "m5.4xlarge")
    assert facts.cpu_model == "Intel(R) Xeon(R) Platinum 8259CL"
    assert facts.memory_bytes == 16384000 * 1024
    assert (facts.cgroup_version, facts.container) == (2, False)


@pytest.mark.parametrize(
    ("model", "clocks", "virtualization"),
    [
        ("QEMU TCG CPU version 2.5+", "tsc hpet acpi_pm", "qemu"),
        ("Intel Xeon Processor (Skylake)", "tsc hpet acpi_pm", "qemu"),
        ("Intel Xeon Processor (Skylake)", "kvm-clock tsc hpet acpi_pm", "kvm"),
        ("Intel Xeon Processor (Skylake)", "", "kvm"),
    ],
)
def test_emulated_processors_are_not_kvm(tree: Tree, model: str, clocks: str, virtualization: str) -> None:
    """A machine of QEMU has its name with and without KVM. Without it, KVM's clock is not on offer."""
    tree.file("sys/class/dmi/id/sys_vendor", "QEMU")
    tree.file("proc/cpuinfo", f"model name : {model}\nflags : fpu hypervisor")
    if clocks:
        tree.file("sys/devices/system/clocksource/clocksource0/available_clocksource", clocks)
    assert host_facts(root=tree.root).virtualization == virtualization


@pytest.mark.parametrize(
    ("vendor", "product", "virtualization", "instance"),
    [
        ("Amazon EC2", "i3en.metal", "none", "i3en.metal"),
        ("Amazon EC2", "u-6tb1.112xlarge", "amazon", "u-6tb1.112xlarge"),
        ("Amazon EC2", "not a type", "amazon", None),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm", None),
        ("Microsoft Corporation", "Virtual Machine", "microsoft", None),
        ("VMware, Inc.", "VMware7,1", "vmware", None),
        ("Google", "Google Compute Engine", "google", None),
        ("Dell Inc.", "m5.large", "vm-other", None),
    ],
)
def test_vendors(tree: Tree, vendor: str, product: str, virtualization: str, instance: str | None) -> None:
    """Known vendors by name; an unknown one with the hypervisor flag is some virtual machine."""
    tree.file("sys/class/dmi/id/sys_vendor", vendor)
    tree.file("sys/class/dmi/id/product_name", product)
    facts = host_facts(root=tree.root)
    assert (facts.virtualization, facts.cloud_instance_type) == (virtualization, instance)


def test_without_dmi(tree: Tree) -> None:
    """Clock sources tell, else the processor's flag; a processor without flags (ARM) tells nothing."""
    assert host_facts(root=tree.root).virtualization == "vm-other"
    tree.file("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc acpi_pm")
    assert host_facts(root=tree.root).virtualization == "kvm"
    tree.file("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm")
    tree.file("proc/cpuinfo", CPUINFO.format(flag=""))
    assert host_facts(root=tree.root).virtualization == "none"
    tree.file("proc/cpuinfo", "processor : 0\nBogoMIPS : 243.75\n")
    facts = host_facts(root=tree.root)
    assert (facts.virtualization, facts.cpu_model) == (None, None)


def test_memory_limit_of_a_pod(tree: Tree) -> None:
    """The tightest limit on the way up counts; v1 and v2; "max" is none."""
    tree.file("proc/self/cgroup", "0::/kubepods/pod7/c1\n")
    tree.file("sys/fs/cgroup/kubepods/pod7/c1/memory.max", "max\n")
    assert memory_bytes(root=tree.root) == 16384000 * 1024
    tree.file("sys/fs/cgroup/kubepods/pod7/memory.max", f"{2 << 30}\n")
    tree.file("sys/fs/cgroup/kubepods/memory.max", f"{8 << 30}\n")
    assert memory_bytes(root=tree.root) == 2 << 30
    tree.file("proc/self/cgroup", "4:memory:/docker/9f\n3:cpu,cpuacct:/docker/9f\n0::/\n")
    tree.file("sys/fs/cgroup/memory/docker/9f/memory.limit_in_bytes", f"{1 << 30}\n")
    tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_bytes(root=tree.root) == 1 << 30


def test_cgroup_version(tree: Tree) -> None:
    """Hybrid machines have their controllers in the old hierarchies: version 1."""
    assert cgroup_version(root=tree.root) == 2
    (tree.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    assert cgroup_version(root=tree.root) is None
    tree.file("proc/self/cgroup", "4:memory:/\n0::/\n")
    assert cgroup_version(root=tree.root) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".dockerenv", ""),
        ("run/.containerenv", ""),
        ("run/systemd/container", "lxc\n"),
        ("proc/1/cgroup", "4:memory:/kubepods/burstable/pod1\n"),
    ],
)
def test_container(tree: Tree, path: str, text: str) -> None:
    """Each engine's mark counts, but not on a machine whose namespaces are the initial ones."""
    assert not in_container(root=tree.root)
    tree.file(path, text)
    assert in_container(root=tree.root)
    folder = tree.root / "proc/self/ns"
    folder.mkdir(parents=True)
    (folder / "pid").symlink_to("pid:[4026531836]")
    (folder / "uts").symlink_to("uts:[4026531838]")
    assert not in_container(root=tree.root)
    (folder / "uts").unlink()
    (folder / "uts").symlink_to("uts:[4026532190]")
    assert in_container(root=tree.root)


def test_this_machine() -> None:
    """What can be checked here by other means agrees."""
    facts = host_facts()
    assert facts.cpus == len(os.sched_getaffinity(0))
    assert 0 < facts.memory_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 1.2
    assert facts.kernel == os.uname().release
