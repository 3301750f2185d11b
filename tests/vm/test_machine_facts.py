"""Facts of the machine itself."""

from __future__ import annotations

import subprocess

import pytest

from volbench.machine.host.host import host_facts

pytestmark = pytest.mark.vm


def test_virtualization_is_what_systemd_says() -> None:
    stdout = subprocess.run(["systemd-detect-virt"], capture_output=True, text=True, check=False).stdout.strip()
    assert host_facts().virtualization == stdout


def test_control_groups_are_of_version_2() -> None:
    facts = host_facts()
    assert (facts.cgroup_version, facts.container) == (2, False)
