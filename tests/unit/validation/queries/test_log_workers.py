"""The processes that read a log, which may be a stranger's: they can do nothing but read it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from volbench.errors import UsageError
from volbench.measure.workload.replay.slowlog_parts import part_offsets
from volbench.validation.queries import classes, log_workers

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
RECORDED = sorted(FIXTURES.glob("slowlog/*/slow.log"))
IS_ROOT = os.geteuid() == 0


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.parent.name)
def test_a_confined_process_reads_what_this_one_reads(recorded: Path, tmp_path: Path) -> None:
    """Although it may read no module, no library and no log that is not open yet."""
    log = tmp_path / "slow.log"
    log.write_bytes(recorded.read_bytes())
    log.chmod(0o600)
    tmp_path.chmod(0o700)
    job = classes._Job(path=log, schemas=frozenset({"shop", "crm"}), samples_each=2)
    with log_workers.log_workers(1, log, classes._read_part) as pool:
        assert pool.submit(eval, f"{classes.__name__!r} in __import__('sys').modules").result(60)
        for begin, end in pairwise(part_offsets(log, part_bytes=20_000)):
            own, its = (
                classes._read_part(job, begin, end),
                pool.submit(classes._read_part, job, begin, end).result(60),
            )
            assert (own is None) == (its is None)
            if own is not None and its is not None:
                assert (its.used, its.skipped, its.state) == (own.used, own.skipped, own.state)
                assert its.tallies.by_time() == own.tallies.by_time()


def test_it_can_neither_start_a_program_nor_open_another_file(tmp_path: Path) -> None:
    log = tmp_path / "slow.log"
    log.write_text("")
    with log_workers.log_workers(1, log, os.fork) as pool:
        with pytest.raises(BlockingIOError):
            pool.submit(os.fork).result(60)
        with pytest.raises(MemoryError):
            pool.submit(bytes, log_workers.MEMORY_BYTES).result(60)
        if IS_ROOT:
            for directory in ("/root", str(tmp_path)):
                with pytest.raises(PermissionError):
                    pool.submit(os.listdir, directory).result(60)
            with pytest.raises(PermissionError):
                pool.submit(os.kill, os.getpid(), 0).result(60)


def test_a_log_that_takes_too_much_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(classes, "_read_part", without_memory)
    monkeypatch.setattr(classes, "log_workers", lambda processes, *_: ThreadPoolExecutor(processes))
    log = tmp_path / "slow.log"
    log.write_bytes(RECORDED[0].read_bytes())
    assert len(part_offsets(log, part_bytes=20_000)) > 2
    with pytest.raises(UsageError, match="too much memory") as caught:
        classes.classes_of_log(log, ["shop"], processes=2, part_bytes=20_000)
    assert "4096 MiB" in caught.value.evidence
