"""NFS statistics of both versions, with the traps that their format has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.measure.sample.parsers.mountstats import NfsMount, parse_mountstats, unescape

TEXT = (Path(__file__).parents[4] / "fixtures" / "sample" / "mountstats.txt").read_text()


@pytest.fixture
def mounts() -> list[NfsMount]:
    return parse_mountstats(TEXT)


def test_only_nfs_mounts_are_found(mounts: list[NfsMount]) -> None:
    assert [mount.filesystem for mount in mounts] == ["nfs4", "nfs"]


def test_octal_escapes_are_undone(mounts: list[NfsMount]) -> None:
    assert mounts[0].mount_point == "/mnt/my data"
    assert mounts[0].source.endswith(":/fsx/my data")


def test_version_1_1_counts_errors_and_1_0_does_not(mounts: list[NfsMount]) -> None:
    assert mounts[0].operations["WRITE"].errors == 2
    assert mounts[1].operations["WRITE"].errors is None
    assert mounts[1].operations["WRITE"].execute_ms == 6


def test_a_queue_time_that_underflowed_is_negative(mounts: list[NfsMount]) -> None:
    assert mounts[0].operations["WRITE"].queue_ms == -16


def test_nconnect_gives_several_transports(mounts: list[NfsMount]) -> None:
    assert [transport.sends for transport in mounts[0].transports] == [13300, 13200]
    assert [transport.bad_xids for transport in mounts[0].transports] == [0, 1]
    assert [transport.backlog_sum for transport in mounts[0].transports] == [120, 80]


def test_udp_has_fewer_fields_before_its_sends(mounts: list[NfsMount]) -> None:
    (transport,) = mounts[1].transports
    assert (transport.sends, transport.receives, transport.in_flight_sum, transport.backlog_sum) == (57, 57, 57, 0)


def test_bytes_by_their_names(mounts: list[NfsMount]) -> None:
    assert mounts[0].bytes["server_read"] == 209731584
    assert mounts[0].bytes["direct_write"] == 104857600


def test_a_machine_without_nfs_has_no_mounts() -> None:
    assert parse_mountstats("device proc mounted on /proc with fstype proc\n") == []


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_escaping_as_the_kernel_does_is_undone(path: str) -> None:
    escaped = "".join(f"\\{ord(c):03o}" if c in ' \t\n\\#"' else c for c in path)
    assert unescape(escaped) == path
