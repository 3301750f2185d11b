"""A power cut while pages are written: what is under way is torn, unless the volume promises whole pages."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path

import pytest
from emulated_volumes import volume

from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.emulated.power import Power

pytestmark = pytest.mark.emulator

PAGE, BLOCK = 16384, 4096
WRITERS, PAGES_EACH = 8, 16
CUTS_MAX = 8


def write_pages(file: Path, writer: int, written: list[int]) -> None:
    """Write this writer's pages with O_DIRECT, one generation after the other, until the volume is gone."""
    memory = mmap.mmap(-1, PAGE)
    descriptor = os.open(file, os.O_WRONLY | os.O_DIRECT)
    try:
        for generation in range(1, 250):
            memory[:] = bytes([generation]) * PAGE
            for number in range(PAGES_EACH):
                os.pwrite(descriptor, memory, (writer * PAGES_EACH + number) * PAGE)
            written[writer] = generation
    except OSError:
        return
    finally:
        os.close(descriptor)


def torn_pages(root: Path, **options: str) -> tuple[int, int]:
    """Cut power among writers; return the torn pages that are read back, and the writes that the volume tore."""
    subject = volume(root, "ebs-gp3", filesystem="ext4-bigalloc", **options)
    subject.start()
    file = subject.data / "pages"
    file.write_bytes(b"\0" * PAGE * PAGES_EACH * WRITERS)
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
    written = [0] * WRITERS
    threads = [threading.Thread(target=write_pages, args=(file, n, written), daemon=True) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    while min(written) < 2 and any(thread.is_alive() for thread in threads):
        threads[0].join(0.05)
    power = Power(subject.directory / CONTROL_SOCKET)
    lost = power.cut()
    for thread in threads:
        thread.join(60)
    power.restore()
    content = file.read_bytes()
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    assert all(min(page) + 1 >= max(page) for page in pages), "a block is older than the last answer allows"
    torn = [page for page in pages if len({page[at] for at in range(0, PAGE, BLOCK)}) > 1]
    subject.remove()
    return len(torn), lost["torn"]


def test_pages_are_torn_without_a_promise(root: Path) -> None:
    """Writers on a busy machine may have nothing under way at a cut, so that further ones follow."""
    torn = 0
    for number in range(CUTS_MAX):
        directory = root / str(number)
        directory.mkdir()
        torn, by_the_volume = torn_pages(directory, atomic_bytes="4KiB")
        assert torn == by_the_volume
        if torn:
            break
    assert torn > 0


@pytest.mark.parametrize("size", ["16KiB", "64KiB", "0"])
def test_aligned_pages_stay_whole_with_one(root: Path, size: str) -> None:
    assert torn_pages(root, atomic_bytes=size) == (0, 0)
