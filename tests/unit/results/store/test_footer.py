"""The sizes that a Parquet file states, read before a library opens it. Compared with what pyarrow reads."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from volbench.core.records.series import SeriesRow
from volbench.errors import RunUnreadable
from volbench.results.store.footer import ColumnChunk, ParquetBytes, pages, read_footer
from volbench.results.store.series import read_series, write_series
from volbench.results.store.tables import GROUP_BYTES_MAX
from volbench.results.store.thrift import BadMetadata


def footer_of(path: Path) -> tuple[int, list[list[ColumnChunk]]]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        file = ParquetBytes(descriptor)
        footer = read_footer(file, groups_max=100)
        assert all(list(pages(file, chunk)) for group in footer.groups for chunk in group.chunks)
        return footer.rows, [list(group.chunks) for group in footer.groups]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_sizes_are_those_that_pyarrow_reads(tmp_path: Path, compression: str, version: str) -> None:
    """Both kinds of pages, lists, texts, nulls, several row groups."""
    path = tmp_path / "table.parquet"
    columns = {
        "number": list(range(5_000)),
        "text": [f"name {row % 7}" for row in range(5_000)],
        "list": [[row] * (row % 4) for row in range(5_000)],
        "absent": [None, 1.5] * 2_500,
    }
    pq.write_table(
        pa.table(columns),
        path,
        compression=compression,
        data_page_version=version,
        row_group_size=1_500,
        data_page_size=2_000,
    )
    rows, groups = footer_of(path)
    metadata = pq.read_metadata(path)
    assert (rows, len(groups)) == (metadata.num_rows, metadata.num_row_groups)
    for number, chunks in enumerate(groups):
        for column, chunk in enumerate(chunks):
            known_values = metadata.row_group(number).column(column)
            assert chunk.values == known_values.num_values
            assert (chunk.bytes, chunk.compressed_bytes) == (
                known_values.total_uncompressed_size,
                known_values.total_compressed_size,
            )


def test_a_page_that_states_more_than_the_footer_is_refused(tmp_path: Path) -> None:
    """The footer is small and true of nothing: a library would take memory for what the page says."""
    path = tmp_path / "series.parquet"
    write_series(path, [SeriesRow(t_s=1.0, source="client", metric="tps", value=1.0)])
    data = bytearray(path.read_bytes())
    _, ((*_, value),) = footer_of(path)
    at = value.first_page
    # The page's header: field 1 (type), field 2 (bytes, decompressed) as one-byte varints.
    assert data[at] == data[at + 2] == 0x15
    stated = _varint(2 * (GROUP_BYTES_MAX + 1))
    compressed = data[at + 4 :]
    del data[at + 3 :]
    data += stated + compressed[: value.compressed_bytes - 4]
    data += _footer_with_longer_value(path, value, len(stated) - 1)
    path.write_bytes(data)
    with pytest.raises(RunUnreadable, match="larger than what volbench reads"):
        read_series(path)


def _footer_with_longer_value(path: Path, chunk: ColumnChunk, grown: int) -> bytes:
    """The file's footer with one column `grown` bytes longer; its number must stay in as many bytes."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    old, new = _varint(2 * chunk.compressed_bytes), _varint(2 * (chunk.compressed_bytes + grown))
    assert len(old) == len(new)
    at = footer.rindex(b"\x16" + old + b"\x26")  # field 7 of a column, followed by field 9, where its pages are
    return footer[: at + 1] + new + footer[at + 1 + len(old) :] + data[-8:]


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


@pytest.mark.parametrize("keep", [0, 3, 11, 40])
def test_a_cut_file_is_no_parquet(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "series.parquet"
    write_series(path, [SeriesRow(t_s=1.0, source="client", metric="tps", value=1.0)])
    data = path.read_bytes()
    path.write_bytes(data[:keep] + data[len(data) - keep :])
    with pytest.raises(BadMetadata):
        footer_of(path)
