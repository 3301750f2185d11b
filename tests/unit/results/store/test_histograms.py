"""histograms.parquet: merged by adding, a stall is known from a gap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from histogram_files import read_histograms, write_histograms

from volbench.core.records.series import HistogramRow
from volbench.errors import RunUnreadable
from volbench.results.store.histograms import HistogramKey, load_histograms

ROW = HistogramRow(
    t_s=1.0,
    interval_s=1.0,
    step="oltp",
    source="client",
    events=5,
    errors=0,
    edge_mult=50.0,
    edge_deduct=-6.9,
    bin=(3, 7),
    count=(2, 3),
)
STALL = replace(ROW, t_s=3.0, events=0, bin=(), count=())
KEY = HistogramKey(step="oltp", source="client", edge_mult=50.0, edge_deduct=-6.9)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "histograms.parquet"
    rows = [
        replace(ROW, measured=False),
        replace(ROW, t_s=2.0, bin=(7, 9), count=(1, 3), above=1),
        STALL,
        replace(ROW, t_s=5.0, events=4, errors=2, bin=(0,), count=(4,)),
        replace(ROW, t_s=5.0, source="server", edge_mult=21.7, bin=(1,), count=(5,)),
        replace(ROW, t_s=6.0, step="other"),
    ]
    assert write_histograms(path, rows) == len(rows)
    return path


def test_what_is_written_is_read(file: Path) -> None:
    """Every field, lists as tuples."""
    rows = list(read_histograms(file))
    assert rows[0] == replace(ROW, measured=False)
    assert rows[2] == STALL


def test_one_histogram_of_everything_measured(file: Path) -> None:
    """Counts add up; warm-up is left out; sources with other bins stay apart."""
    result = load_histograms(file).merged(measured=True, steps=["oltp"])
    assert {key.source for key in result} == {"client", "server"}
    merged = result[KEY]
    assert {i: int(n) for i, n in enumerate(merged.counts[0]) if n} == {0: 4, 7: 1, 9: 3}
    assert (merged.above.item(), merged.events.item(), merged.errors.item()) == (1, 9, 2)
    assert merged.rows.item() == 3
    assert merged.seconds.item() == 3.0


def test_a_stall_and_a_gap_differ(file: Path) -> None:
    """Second 3 had an interval without events, second 4 has no interval at all."""
    merged = load_histograms(file).merged(grid_s=[0, 1, 2, 3, 4, 5])[KEY]
    assert merged.rows.tolist() == [1, 1, 1, 0, 1]
    assert merged.events.tolist() == [5, 5, 0, 0, 4]
    assert merged.counts.sum(axis=1).tolist() == [5, 4, 0, 0, 4]


def test_times_outside_the_grid_are_left_out(file: Path) -> None:
    """An interval belongs to the bucket that its end lies in."""
    assert load_histograms(file).merged(grid_s=[1, 2])[KEY].rows.tolist() == [1]
    assert load_histograms(file).merged(grid_s=[100, 200])[KEY].rows.tolist() == [0]


def test_bins_without_counts_are_refused(tmp_path: Path) -> None:
    """A malformed row is found when it is written."""
    with pytest.raises(ValueError, match="do not match"):
        write_histograms(tmp_path / "h.parquet", [replace(ROW, count=(1,))])
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_file_is_named(file: Path) -> None:
    """Expected failure, with the file's name."""
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(RunUnreadable, match=r"histograms\.parquet"):
        load_histograms(file)
