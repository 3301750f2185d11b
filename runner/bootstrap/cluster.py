"""A Kubernetes cluster that answers, for the tests: the current context's, else the lab's on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from bootstrap.command import run, with_rights
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import Need, install, program
from volbench.machine.placement import capabilities

LAB = "tests/lab/kubernetes"
UP_LIMIT_S = 2400.0
NEEDS = (
    program("containerd", "containerd", reason="runs the nodes' containers"),
    program("runc", "runc", reason="runs the nodes' containers"),
    Need(
        met=Path("/usr/lib/cni/bridge").exists,
        packages=("containernetworking-plugins",),
        reason="the pods' network",
    ),
    program("nft", "nftables", reason="the services' addresses"),
    program("iptables", "iptables", reason="lets the nodes reach each other next to a Docker engine"),
    program("ip", "iproute2", reason="the nodes' networks"),
    program("openssl", "openssl", reason="the cluster's certificates"),
    program("busybox", "busybox", "busybox-static", reason="a shell for the volumes' provisioner"),
)


def ensure_cluster(directories: Directories, console: Console) -> None:
    """Nothing where a cluster answers; else the lab cluster is built, which takes minutes once, and brought up.

    Raises MissingPrerequisite with the last lines of the lab's log.
    """
    ready = capabilities.kubernetes()
    if ready.present:
        console.say(f"a cluster answers: {ready.evidence}")
        return
    install(NEEDS, directories, console)
    console.say("bringing up the lab cluster; its programs are compiled once, which takes minutes")
    log = directories.log("cluster")
    lab = [sys.executable, str(directories.root / LAB), "up"]
    run(with_rights(lab), log=log, label="bringing up the lab cluster", timeout_s=UP_LIMIT_S)
    console.say(f"the lab cluster is up: {log.read_text().splitlines()[-1]}; `python3 {LAB} down` ends it")
