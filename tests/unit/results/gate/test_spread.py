"""What a gate says of the cells' values: no power of ten, and four digits where a limit may be near."""

from __future__ import annotations

import pytest

from volbench.results.gate.metrics import _spread


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([11.468], "11.47 ms"),
        ([12_345.6], "12,346 ms"),
        ([999.96, 1234.5, 1_250_000.0], "1,000 to 1,250,000 ms, median 1,234 ms"),
        ([0.012362], "0.01236 ms"),
    ],
)
def test_values_are_written_with_all_digits_before_the_point(values: list[float], text: str) -> None:
    assert _spread(values, "latency_ms_p95") == text
