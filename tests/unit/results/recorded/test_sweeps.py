"""Which names make a sweep, and what its recordings are in order of."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.sweeps import sweeps_of
from volbench.results.store.series import Series, SeriesKey


def of(source: str, metric: str, value: float, entity: str = "", host: str = "") -> Recorded:
    series = Series(t_s=np.arange(1.0, 9.0), value=np.full(8, value))
    return Recorded(
        series={SeriesKey(source=source, metric=metric, entity=entity): series}, clocked=False, host=host
    )


def device(host: str = "db1") -> Recorded:
    return of("diskstats", "reads_per_s", 100.0, "sda", host)


def client(threads: float) -> Recorded:
    return of("client", "threads_running", threads)


def patterns(names: Iterable[str], host: str = "db1") -> list[tuple[str, str, list[float | None]]]:
    sweeps = sweeps_of({name: device(host) for name in names})
    return [(one.pattern, one.axis, [member.load for member in one.members]) for one in sweeps]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.1.res", "a.2.res", "a.16.res"], [("a.*.res", "number", [1.0, 2.0, 16.0])]),
        (["a-8thr", "a-64thr", "a-512thr"], [("a-*thr", "threads", [8.0, 64.0, 512.0])]),
        (["8/i.txt", "16/i.txt", "32/i.txt"], [("*/i.txt", "number", [8.0, 16.0, 32.0])]),
        (["a.1.res", "a.2.res"], []),
        (["a.1.res", "b.2.res", "c.4.res"], []),
        (["i-low", "i-mid", "i-high"], [("i-*", "none", [None, None, None])]),
        (["a.1", "a.2", "a.x"], []),
        (["t1.txt", "t02.txt", "t٣.txt"], [("t*.txt", "threads", [1.0, 2.0, 3.0])]),
    ],
)
def test_names_that_differ_in_one_part(
    names: list[str], expected: list[tuple[str, str, list[float | None]]]
) -> None:
    assert patterns(names) == expected


def test_of_two_numbers_the_one_that_goes_up_the_most_is_the_load() -> None:
    names = [f"res{run:02d}/iostat.rw.{percent}.{threads}.res" for run in (1, 2, 3) for percent in (22, 50, 80)
             for threads in (1, 8, 64)]  # fmt: skip
    found = patterns(names)
    assert len(found) == 9
    assert {tuple(loads) for _, _, loads in found} == {(1.0, 8.0, 64.0)}
    assert "res01/iostat.rw.22.*.res" in {pattern for pattern, _, _ in found}


def test_the_log_of_the_same_numbers_and_the_most_common_words_is_the_client_s() -> None:
    recordings = {f"r/iostat.{mode}.{n}.res": device() for mode in ("ro", "rw") for n in (1, 2, 3)}
    recordings |= {f"r/sysbench.{mode}.{n}.res": client(threads * 10**n) for n in (1, 2, 3)
                   for mode, threads in (("ro", 1), ("rw", 2))}  # fmt: skip
    loads = {one.pattern: (one.axis, [member.load for member in one.members]) for one in sweeps_of(recordings)}
    assert loads == {
        "r/iostat.ro.*.res": ("threads", [10.0, 100.0, 1000.0]),
        "r/iostat.rw.*.res": ("threads", [20.0, 200.0, 2000.0]),
    }


def test_logs_that_cannot_be_told_apart_are_of_no_recording() -> None:
    recordings = {f"i{n}.txt": device() for n in (1, 2, 3)}
    recordings |= {f"{word}{n}.log": client(8.0 * n) for n in (1, 2, 3) for word in ("one", "two")}
    (sweep,) = sweeps_of(recordings)
    assert (sweep.axis, [member.log for member in sweep.members]) == ("number", [None] * 3)


def test_without_a_host_only_clients_make_a_sweep() -> None:
    assert patterns(["node1", "node2", "node3"], host="") == []
    assert patterns(["t1", "t2", "t3"], host="") == [("t*", "threads", [1.0, 2.0, 3.0])]
