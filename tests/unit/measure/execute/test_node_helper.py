"""The privileged helper of a node, on directories as the kubelet makes them."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from volbench.machine.volume import coldness
from volbench.machine.volume.node_helper import SOCKET, VARIABLE, ask_for_log_page, ask_to_drop_caches
from volbench.measure.execute import node_helper as helping
from volbench.measure.execute.node_helper import (
    CALLERS_MAX,
    EBS_MODEL,
    REQUESTS_BURST,
    Node,
    NodeHelper,
    RateLimit,
    node_helper,
)
from volbench.measure.sample.device.ebs_nvme import EbsNvmeSampler
from volbench.measure.sample.parsers.ebs_nvme import LOG_PAGE_BYTES, MAGIC

PAGE = struct.pack("<II11Q", MAGIC, 0, *range(1, 12)).ljust(LOG_PAGE_BYTES, b"\0")


def pod_directory(root: Path, uid: str = "uid-1") -> Path:
    directory = root / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "volbench-node"
    directory.mkdir(parents=True)
    return directory


def called(directory: Path) -> socket.socket:
    """A connection that has said nothing yet; by a descriptor, since a socket's path is short."""
    opened = os.open(directory, os.O_PATH)
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(60)
    caller.connect(f"/proc/self/fd/{opened}/{SOCKET}")
    os.close(opened)
    return caller


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with an EBS volume and a local disk."""
    for name, model in (("nvme1n1", EBS_MODEL), ("nvme2n1", "Amazon EC2 NVMe Instance Storage")):
        (tmp_path / "block" / name / "device").mkdir(parents=True)
        (tmp_path / "block" / name / "device" / "model").write_text(f"{model}   \n")
    return Node(
        devices=tmp_path / "dev", blocks=tmp_path / "block", drop_caches=tmp_path / "drop_caches", drop_every_s=0.0
    )


@pytest.fixture
def helper(tmp_path: Path, node: Node) -> Iterator[NodeHelper]:
    """A helper whose node has no pod yet."""
    with node_helper(tmp_path / "pods", node) as opened:
        yield opened


def test_a_pod_with_the_directory_has_the_nodes_caches_dropped(
    tmp_path: Path, helper: NodeHelper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Synced first; a cold step asks by itself where it may not drop them."""
    synced: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append((tmp_path / "drop_caches").exists()))
    directory = pod_directory(tmp_path)
    assert [output.rpartition(": ")[2] for output in helper.look()] == ["listening"]
    monkeypatch.setattr(coldness, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    assert not coldness.drop_caches(), "no pod: nobody is asked"
    monkeypatch.setenv(VARIABLE, str(directory / SOCKET))
    assert coldness.drop_caches()
    assert (tmp_path / "drop_caches").read_text() == "3\n"
    assert synced == [False], "what is dirty cannot be dropped"


def test_a_node_without_helper_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / SOCKET))
    monkeypatch.setattr(coldness, "DROP_CACHES", tmp_path / "no" / "drop_caches")
    assert not coldness.drop_caches()


def test_a_drop_that_the_node_refuses_is_none(tmp_path: Path, node: Node, helper: NodeHelper) -> None:
    directory = pod_directory(tmp_path)
    list(helper.look())
    node.drop_caches.mkdir()
    assert not ask_to_drop_caches(directory / SOCKET)


def test_the_log_page_becomes_samples_of_the_pod(
    tmp_path: Path, helper: NodeHelper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from the node's device, parsed in the pod; other disks and names are refused."""
    requests: list[Path] = []

    def read(device: Path) -> bytes:
        requests.append(device)
        return PAGE

    monkeypatch.setattr(helping, "read_log_page", read)
    directory = pod_directory(tmp_path)
    list(helper.look())
    sampler = EbsNvmeSampler(["/dev/nvme1n1"], directory / SOCKET)
    assert sampler.probe().present
    assert ("reads", "nvme1n1") in sampler.read()
    assert set(requests) == {tmp_path / "dev" / "nvme1n1"}
    with pytest.raises(OSError, match="not an EBS volume but 'Amazon EC2 NVMe Instance Storage'"):
        ask_for_log_page(directory / SOCKET, "nvme2n1")
    with pytest.raises(OSError, match="not an NVMe namespace"):
        ask_for_log_page(directory / SOCKET, "../../etc/shadow")
    assert len(set(requests)) == 1


def test_a_pod_on_a_node_without_helper_is_told_so(tmp_path: Path) -> None:
    presence = EbsNvmeSampler(["/dev/nvme1n1"], tmp_path / SOCKET).probe()
    assert not presence.present
    assert "the node has no helper" in presence.reason


@pytest.mark.parametrize("line", [b"", b"no json\n", b"[]\n", b'{"do": "reboot"}\n', b'{"do": "log_page"}\n'])
def test_anything_else_is_refused(node: Node, line: bytes) -> None:
    answer = node.answer(line)
    assert answer["ok"] is False
    assert answer["error"]


def test_every_user_of_the_pod_may_ask_and_sockets_go_with_their_pods(tmp_path: Path, helper: NodeHelper) -> None:
    first, second = pod_directory(tmp_path, "uid-1"), pod_directory(tmp_path, "uid-2")
    list(helper.look())
    assert stat.S_IMODE((first / SOCKET).stat().st_mode) & 0o222 == 0o222
    first.rename(tmp_path / "elsewhere")
    assert [output.rpartition(": ")[2] for output in helper.look()] == ["gone"]
    assert list(helper.look()) == []
    assert not (tmp_path / "elsewhere" / SOCKET).exists()
    helper.end()
    assert not (second / SOCKET).exists()


def test_links_of_a_pod_lead_nowhere(tmp_path: Path, helper: NodeHelper) -> None:
    """Neither the directory nor the socket's name is followed."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    (pod_directory(tmp_path, "uid-1") / SOCKET).symlink_to(victim)
    swapped = pod_directory(tmp_path, "uid-2")
    swapped.rmdir()
    (tmp_path / "outside").mkdir()
    swapped.symlink_to(tmp_path / "outside")
    output = sorted(item.rpartition(": ")[2] for item in helper.look())
    assert output[-1] == "listening"
    assert len(output) == 2
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("mine", 0o600)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_pod_that_calls_too_often_is_turned_away(tmp_path: Path, helper: NodeHelper) -> None:
    """Callers that say nothing hold no more than their places, and others of the node none at all."""
    busy, second = pod_directory(tmp_path, "uid-1"), pod_directory(tmp_path, "uid-2")
    list(helper.look())
    calleds = [called(busy) for _ in range(CALLERS_MAX)]
    with called(busy) as late:
        assert late.recv(100) == b""
    with called(second) as late:
        late.sendall(b"{}\n")
        assert json.loads(late.recv(1000))["ok"] is False
    for item in calleds:
        item.close()


def test_a_pod_that_asks_without_end_is_turned_away(tmp_path: Path, helper: NodeHelper) -> None:
    """After a burst, and no other pod is: each has a limit of its own."""
    greedy, modest = pod_directory(tmp_path, "greedy"), pod_directory(tmp_path, "modest")
    list(helper.look())

    def ask(directory: Path) -> bytes:
        with called(directory) as caller:
            try:
                caller.sendall(b'{"do": "nothing"}\n')
                return caller.recv(4096)
            except OSError:  # turned away before it could say anything
                return b""

    answers = [ask(greedy) for _ in range(4 * REQUESTS_BURST)]
    assert answers.count(b"") > 0
    assert b"known requests" in answers[0]
    assert b"known requests" in ask(modest)


def test_a_rate_limit_refills() -> None:
    """So many at once, then so many a second, and never more at once."""
    now_s = [0.0]
    limit = RateLimit(10.0, 3, now_s=lambda: now_s[0])
    assert [limit.admit() for _ in range(5)] == [True, True, True, False, False]
    now_s[0] = 0.11
    assert [limit.admit() for _ in range(2)] == [True, False]
    now_s[0] = 100.0
    assert [limit.admit() for _ in range(4)] == [True, True, True, False]


def test_caches_are_not_dropped_one_time_after_the_other(tmp_path: Path) -> None:
    """A second request waits until the time between two drops is over."""
    node = Node(drop_caches=tmp_path / "drop_caches", drop_every_s=0.3)
    begun_s = time.monotonic()
    for _ in range(3):
        assert node.answer(b'{"do": "drop_caches"}')["ok"]
    assert time.monotonic() - begun_s >= 0.6
