from __future__ import annotations

from volbench.results.recorded.sysbench import looks_like_sysbench, parse_sysbench
from volbench.results.store.series import SeriesKey

LOG = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Threads started!

[ 1s ] thds: 8 tps: 317.70 qps: 6388.92 (r/w/o: 4478.7/1266.8/643.4) lat (ms,95%): 51.02 err/s: 0.00
[ 2s ] thds: 8 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): 0.00 err/s: 0.00 reconn/s: 0.00
[ 2s ] queue length: 12, concurrency: 8
[ 3s ] thds: 8 tps: 20.00 qps: 400.00 (r/w/o: 280.00/80.00/40.00) lat (ms,95%): 1803.47 err/s: 1.00 reconn/s: 0.00
SQL statistics:
"""


def values(metric: str) -> tuple[list[float], list[float]]:
    result = parse_sysbench(LOG).series[SeriesKey(source="client", metric=metric)]
    return result.t_s.tolist(), result.value.tolist()


def test_rates_by_second() -> None:
    assert values("tps") == ([1.0, 2.0, 3.0], [317.7, 0.0, 20.0])
    assert values("errors_per_s") == ([1.0, 2.0, 3.0], [0.0, 0.0, 1.0])
    assert values("queue_length") == ([2.0], [12.0])


def test_a_stall_is_no_latency_of_zero() -> None:
    assert values("latency_ms_p95") == ([1.0, 3.0], [51.02, 1803.47])


def test_it_has_no_time_of_day() -> None:
    assert not parse_sysbench(LOG).clocked
    assert looks_like_sysbench(LOG)
    assert not looks_like_sysbench("[ 1s ] hello\n")
