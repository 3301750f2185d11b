"""The EBS log page: offsets as documented, foreign pages refused."""

from __future__ import annotations

import struct

import pytest

from volbench.measure.sample.parsers.ebs_nvme import LatencyBin, parse_log_page


def log_page(counters: list[int], *, reads: list[tuple[int, int, int]], magic: int = 0x3C23B510) -> bytes:
    """A page with u64 counters from offset 8, and a read histogram at 512."""
    page = bytearray(4096)
    struct.pack_into("<I", page, 0, magic)
    struct.pack_into("<11Q", page, 8, *counters)
    struct.pack_into("<Q", page, 512, len(reads))
    for number, (lower, upper, count) in enumerate(reads):
        struct.pack_into("<QQII", page, 520 + 24 * number, lower, upper, count, 0)
    struct.pack_into("<Q", page, 2056, 1)
    struct.pack_into("<QQII", page, 2064, 0, 512, 9, 0)
    return bytes(page)


def test_counters_stand_at_their_offsets() -> None:
    page = log_page([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], reads=[(0, 1, 5), (1, 2, 6)])
    result = parse_log_page(page)
    assert (result.reads, result.writes, result.read_bytes, result.write_bytes) == (1, 2, 3, 4)
    assert (result.read_us, result.write_us) == (5, 6)
    assert (result.volume_exceeded_iops_us, result.volume_exceeded_throughput_us) == (7, 8)
    assert (result.instance_exceeded_iops_us, result.instance_exceeded_throughput_us) == (9, 10)
    assert struct.unpack_from("<Q", page, 88) == (result.queue_length,) == (11,)


def test_histograms_have_their_bins() -> None:
    result = parse_log_page(log_page([0] * 11, reads=[(0, 1, 5), (1, 2, 6)]))
    assert result.read_latency == (
        LatencyBin(lower_us=0, upper_us=1, count=5),
        LatencyBin(lower_us=1, upper_us=2, count=6),
    )
    assert result.write_latency == (LatencyBin(lower_us=0, upper_us=512, count=9),)


def test_a_full_histogram_fits_before_the_next() -> None:
    result = parse_log_page(log_page([0] * 11, reads=[(n, n + 1, n) for n in range(64)]))
    assert result.read_latency[63] == LatencyBin(lower_us=63, upper_us=64, count=63)
    assert result.write_latency[0].count == 9


def test_another_vendors_page_is_refused() -> None:
    with pytest.raises(ValueError, match="not an EBS volume"):
        parse_log_page(log_page([0] * 11, reads=[], magic=0xDEADBEEF))


def test_a_short_page_is_refused() -> None:
    with pytest.raises(ValueError, match="512 bytes"):
        parse_log_page(bytes(512))


def test_a_histogram_that_would_leave_the_page_is_refused() -> None:
    page = bytearray(log_page([0] * 11, reads=[]))
    struct.pack_into("<Q", page, 2056, 65)
    with pytest.raises(ValueError, match="65 bins"):
        parse_log_page(bytes(page))
