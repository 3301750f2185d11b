"""Rows of the fuzzer's table: what a user writes, in files and on the command line."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fuzzed.reader import ROOT, Reader, files, of_text, texts
from volbench.core.profile.claim_path import parse_claim_path
from volbench.core.profile.files import whole_profile
from volbench.core.profile.resolve import resolve, resolve_spec
from volbench.core.profile.spec import parse_volume
from volbench.core.suite.load import check_suite, load_suite
from volbench.core.suite.policy import load_policy
from volbench.core.suite.validation import load_validation_plan
from volbench.errors import VolbenchError
from volbench.machine.engine.connection import read_option_file
from volbench.machine.placement.attach import parse_dsn
from volbench.machine.placement.docker.image_names import parse_server_image
from volbench.machine.placement.kubernetes.node_blocks import check_blocks, node_of_block
from volbench.machine.placement.kubernetes.options import (
    labels_of,
    parse_changes,
    parse_options,
    read_options,
    tolerations_of,
    volumes_of,
)
from volbench.results.credits.prices import load_prices, monthly_cost
from volbench.results.gate.language import parse_condition

PLAN = """schema: 2
name: move to new servers
source: {host: db1, user: reader, option_file: /etc/source.cnf}
candidate: {host: db2, user: reader, option_file: /etc/candidate.cnf}
schemas: [shop]
policy:
  - objects equal
  - latency_ms_p95 <= 50 ms
"""
PROFILE = (ROOT / "suites" / "volumes" / "ebs-gp2.yaml").read_text().replace("name: ebs-gp2", "name: mine")
_count = iter(range(10**9))
PRICED_MAX = 4


def _profile(path: Path) -> None:
    parent = path.parent / f"p{next(_count)}"  # loaded profiles are kept by path
    parent.mkdir()
    for alternative in ("common.yaml", "ec2-instances.yaml"):
        shutil.copy(ROOT / "suites" / "volumes" / alternative, parent)
    path.rename(parent / "mine.yaml")
    whole_profile("mine", parent)
    resolve("mine", {"size": "50GiB"}, parent)


def _prices(path: Path) -> None:
    prices = load_prices(path)
    for profile in list(prices.volumes)[:PRICED_MAX]:
        with suppress(VolbenchError):
            parameters = resolve(profile, {}).parameters
            monthly_cost(prices, profile, parameters, read_bytes_per_s=1e6, write_bytes_per_s=1e6)


def _line(parse: Callable[[str], object]) -> Callable[[Path], object]:
    """A parser of one argument of a command line: no line break, no zero byte."""
    return of_text(lambda text: parse(text.replace("\x00", "").strip("\n")))


def _target_options(text: str) -> None:
    arguments = [field for field in text.replace("\x00", "").split("\n") if field]
    options = parse_options(arguments)
    for volume in ("", *volumes_of(options)):
        of_volume = read_options(options, volume)
        labels_of(of_volume.selector)
        tolerations_of(of_volume.tolerations)
        check_blocks(blocks=6, nodes=of_volume.nodes)
        node_of_block(3, blocks=6, nodes=of_volume.nodes)
    parse_changes(arguments)


def _spec(text: str) -> None:
    parse_volume(text, name=None)
    resolve_spec(text.partition("=")[2], name="volume")


def _assignments() -> Sequence[bytes]:
    return tuple(
        text.encode()
        for text in (
            "repeats=3",
            "steps.read-write.threads=32",
            "scale=ci",
            "engine.flavor=mariadb",
            "steps.0.duration=10s",
            "limits.emulator_late=5%",
            "steps.read-write.threads=[1,2]",
            "engine.variables={a: 1}",
        )
    )


_QUICK = (ROOT / "suites" / "quick.yaml").read_text()


def _set(text: str) -> None:
    check_suite(_QUICK, name="quick.yaml", settings=[text])


READERS: tuple[Reader, ...] = (
    Reader(
        name="option-file",
        read=read_option_file,
        seeds=texts('[client]\nuser=reader\npassword="a\\"b"\n[mysqld]\nskip-name-resolve\n!include x\n'),
        share=20,
    ),
    Reader(
        name="dsn",
        read=_line(parse_dsn),
        seeds=texts(
            "mysql://user@host:3306/schema",
            "mysql://user@localhost/s?socket=/run/mysqld/mysqld.sock",
            "mysql://u@[::1]:3307/x",
        ),
        share=60,
    ),
    Reader(
        name="spec",
        read=_line(_spec),
        seeds=texts(
            "a=path:/mnt/x",
            "b=emulated:ebs-gp2?size=50GiB&credits=10%",
            "c=nfs:s:/e?vers=4.1",
            "d=storage-class:gp3?size=100Gi",
            "e=docker-volume:x?create=yes",
        ),
        share=20,
    ),
    Reader(
        name="claim-path",
        read=_line(parse_claim_path),
        seeds=texts("pvc:dumps/2026/shop.sql.gz", "pvc:restored", "/data/shop.sql"),
        share=20,
    ),
    Reader(
        name="server-image",
        read=_line(parse_server_image),
        seeds=texts("mysql:8.0", "mariadb:11.8", "registry.local:5000/a/mysql@sha256:" + "0" * 64),
        share=30,
    ),
    Reader(
        name="target-options",
        read=of_text(_target_options),
        seeds=texts(
            "namespace=volbench\nnodes=3\nselector=topology.kubernetes.io/zone=a,b=c",
            "server_memory=2Gi\nnode_price=0.1\na.profile=ebs-gp3?iops=6000\na.tolerations=spot:NoSchedule,k=v:NoExecute",
            "parallel=2\na.selector=a=b\na.node=n1",
            "start_timeout=5m\npin_node=false\nttl=1d\nnodes=1",
            "start_timeout=5m\npriority_class=high",
        ),
        share=20,
    ),
    Reader(
        name="condition",
        read=_line(lambda text: parse_condition(text, where="p.yaml:1")),
        seeds=texts(
            "valid cells >= 5",
            "latency_ms_p95 <= 50 ms",
            "candidate not worse than current by > 10 %",
            "finding storage.stall absent",
        ),
        share=40,
    ),
    Reader(name="set", read=_line(_set), seeds=_assignments, share=0.5),
    Reader(name="suite", read=load_suite, seeds=files("suites/*.yaml", bytes_max=900), share=1, file="suite.yaml"),
    Reader(name="policy", read=load_policy, seeds=files("suites/policies/*.yaml"), share=3, file="policy.yaml"),
    Reader(name="plan", read=load_validation_plan, seeds=texts(PLAN), share=1, file="plan.yaml"),
    Reader(name="profile", read=_profile, seeds=texts(PROFILE), share=0.7, file="mine.yaml"),
    Reader(name="prices", read=_prices, seeds=files("suites/prices/aws.yaml"), share=2, file="prices.yaml"),
)
