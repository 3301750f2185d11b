"""Every fault of every SPEC is told before anything is made, each with the nearest match."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.plan.volume_check import check_volumes, suite_volume_faults
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError


def faults_of(*texts: str, target: str = "local") -> str:
    with pytest.raises(UsageError) as caught:
        check_volumes(texts, target=target)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a=emulated:ebs-gp22", "ebs-gp2"),
        ("a=emulated:ebs-gp2?siez=50GiB", "size"),
        ("a=emulated:ebs-gp2?dri=/var/tmp", "dir"),
        ("a=emulated:ebs-gp2?size=much", "such as 64MiB"),
        ("a=emulated:ebs-gp2?size=1GiB&credits=200%", "between 0 and 1"),
        ("a=emulated:ebs-gp3?instance=m5.largee", "m5.large"),
        ("a=emulated:fsx-openzfs?mode=asink", "one of"),
        ("a=emulated:common", "not a complete profile"),
        ("a=emulated:./nowhere.yaml", "nowhere"),
        ("a=emulatd:ebs-gp2", "emulated"),
        ("a=nfs:server:/export?vers=4.1,nconect=4", "nconnect"),
        ("a=nfs:server:/export?nconnect=many", "a number"),
        ("a=nfs:server:/export?vers=5", "4.2"),
        ("a=nfs:server:/export?hard=1", "takes no value"),
        ("a=nfs:server:/export?rsize", "needs a value"),
        ("a=storage-class:gp3?siez=1Gi", "size"),
    ],
)
def test_a_fault_has_the_nearest_match(text: str, hint: str) -> None:
    fault = faults_of(text)
    assert hint in fault
    assert text in fault


def test_all_faults_of_all_volumes_are_told_at_once() -> None:
    fault = faults_of(
        "a=emulated:ebs-gp22",
        "b=emulated:ebs-gp2?siez=50GiB&credis=1%&filesystem=ext5",
        "c=pth:/mnt/x",
        "d=docker-volume:x?creat=yes&creaet=no",
        "d=path:/mnt/d",
        "d=path:/mnt/e",
        "e=nfs:server:/export?nconect=4,rsiz=1",
    )
    for term in (
        "'ebs-gp22'",
        "'siez'",
        "'credis'",
        "filesystem=ext5",
        "'pth'",
        "'creat'",
        "'creaet'",
        "nconect",
        "rsiz",
        "two volumes have the name 'd'",
    ):
        assert term in fault, term


def test_kinds_of_a_cluster_and_of_a_machine_are_told_apart() -> None:
    assert "--target kubernetes" in faults_of("a=pvc:data")
    assert "does not exist in a cluster" in faults_of("a=path:/mnt/x", target="kubernetes")
    assert check_volumes(["a=pvc:data"], target="kubernetes")[0].kind == "pvc"


@pytest.mark.parametrize(
    "text",
    [
        "a=nfs:server:/export?vers=4.1,nconnect=4,noac,async,rsize=1048576,sec=krb5p,x-systemd.automount",
        "a=nfs:server:/export?nfsvers=3,nolock,hard,timeo=600,retrans=2,_netdev,proto=tcp",
        "a=nfs:[fe80::1]:/export",
        "a=emulated:ebs-gp2?size=50GiB&dir=/var/tmp/x",
        "a=docker-volume:d?create=yes",
    ],
)
def test_what_is_right_passes(text: str) -> None:
    assert check_volumes([text], target="local")[0].name == "a"


def test_what_is_mounted_by_the_examples_of_the_kernels_own_documentation_passes() -> None:
    """Options of nfs(5), all that take part in its examples and its lists of generic and of special options."""
    options = (
        "soft,softerr,hard,softreval,nosoftreval,timeo=600,retrans=5,rsize=1024,wsize=1024,ac,noac,acregmin=3,"
        "acregmax=60,acdirmin=30,acdirmax=60,actimeo=3,bg,fg,nconnect=2,max_connect=4,rdirplus,nordirplus,retry=2,"
        "sec=sys,sharecache,nosharecache,resvport,noresvport,lookupcache=positive,fsc,nofsc,sloppy,xprtsec=mtls,"
        "proto=rdma,udp,tcp,rdma,port=20049,mountport=1,mountproto=tcp,mounthost=x,mountvers=3,namlen=255,lock,"
        "nolock,cto,nocto,acl,noacl,local_lock=flock,minorversion=1,clientaddr=0.0.0.0,migration,nomigration"
    )
    assert check_volumes([f"a=nfs:server:/export?{options}"], target="local")


def suite_faults(tmp_path: Path, text: str) -> str:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_suite(path, more_faults=suite_volume_faults)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_volumes_of_a_suite_are_told_with_their_line(tmp_path: Path) -> None:
    fault = suite_faults(
        tmp_path,
        "name: s\nsteps:\n- {kind: oltp, duration: 30s}\nvolumes:\n  a: emulated:ebs-gp22\n"
        "  b: emulated:ebs-gp2?siez=50GiB\n  c: pvc:data\nforecast:\n  step: oltp\n  iops: 10\n  volume: ebs-gp9\n",
    )
    assert "s.yaml:5: volumes.a: " in fault
    assert "s.yaml:6: volumes.b: " in fault
    assert "s.yaml:11: forecast.volume: " in fault
    assert "3 faults" in fault


def test_options_that_a_sweep_varies_are_told_with_their_line(tmp_path: Path) -> None:
    fault = suite_faults(
        tmp_path,
        "name: s\nsteps:\n- {kind: oltp, duration: 30s}\nvolumes:\n  a: emulated:ebs-gp3\nsweep:\n"
        "  design: one_factor\n  factors:\n    volume.iosp: {base: 3000, levels: [6000, 7000]}\n"
        "    volume.throughput: {base: 125MiB, levels: [fast]}\n",
    )
    assert "s.yaml:9: sweep.factors.volume.iosp: " in fault
    assert "s.yaml:10: sweep.factors.volume.throughput: " in fault
    assert "2 faults" in fault
