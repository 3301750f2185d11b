"""A history of a load from a plain series: CSV with a header line, or JSON, a list of objects.

Columns: `t` (end of the interval: seconds, or a time such as 2026-01-31T12:00:00Z), and either `iops` with, if
known, `mib_per_s`, or `reads_per_s` and `writes_per_s` with, if known, `read_mib_per_s` and `write_mib_per_s`.
An empty field or null is unknown.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pa_compute
import pyarrow.csv as pa_csv

from volbench.core.base.parse import NUMBER_MAX, parse_json
from volbench.core.base.text import counted
from volbench.core.profile.arrays import Floats
from volbench.errors import UsageError
from volbench.results.credits.work import DEFAULT_IO_BYTES, Work, from_points
from volbench.results.recorded.contents import contents

SLOW_MS = 50.0  # a volume that is not held back answers in single-digit milliseconds
_EPOCH_FROM_S = 1e8  # a number of seconds from here on (1973) is a date, not a time since the begin
_EPOCH_MS_FROM = 1e11  # and from here on (1973 in ms) a number of milliseconds
TIME_NAMES = ("t", "time", "timestamp", "date", "datetime", "ts")
_SPLIT = ("reads_per_s", "writes_per_s", "read_mib_per_s", "write_mib_per_s")
_TOTALS = ("iops", "mib_per_s")
_LAYOUT = (
    "t,iops[,mib_per_s] or t,reads_per_s,writes_per_s[,read_mib_per_s,write_mib_per_s] (t or time: s, ms, ISO)"
)


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What is taken for what a history does not tell.

    Args:
        io_bytes: mean size of a request.
        read_share: share of the requests that are reads.
    """

    io_bytes: float = DEFAULT_IO_BYTES
    read_share: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """A load from a file.

    Args:
        work: the intervals.
        text: what was read, for a reader.
        warnings: what was passed over or assumed.
        observed: the vendor's own balance, a share of the bucket, by seconds since the begin; empty: not told.
        observed_bytes: the same where the vendor tells bytes (EFS), whose share only the bucket's size tells.
        slow: begin and end of the stretches in which requests waited SLOW_MS or more, seconds since the begin.
    """

    work: Work
    text: str
    warnings: tuple[str, ...] = ()
    observed: tuple[tuple[float, float], ...] = ()
    observed_bytes: tuple[tuple[float, float], ...] = ()
    slow: tuple[tuple[float, float], ...] = ()


def read_plain_series(path: Path, assumed: Defaults) -> History:
    """Return a plain series, also packed or in UTF-16.

    Raises UsageError for what is no such file, with what is wrong.
    """
    name, text = _only_text(path)
    columns = _with_time(_json_columns(text, path) if name.endswith(".json") else _csv_columns(text, path))
    unknown = set(columns) - {"t", *_SPLIT, *_TOTALS}
    if "t" not in columns or unknown or not ({"iops"} <= set(columns) or {*_SPLIT[:2]} <= set(columns)):
        raise UsageError(
            "not a plain series",
            where=str(path),
            evidence=f"its columns are {', '.join(columns) or 'none'}",
            next_step=f"columns are {_LAYOUT}",
        )
    rates, traffic = _rates(columns, assumed)
    work = from_points(
        t_s=columns["t"],
        reads_per_s=rates[0],
        writes_per_s=rates[1],
        read_bytes_per_s=traffic[0],
        write_bytes_per_s=traffic[1],
        io_bytes=assumed.io_bytes,
        clock="date" if columns["t"][:1].max(initial=0.0) > _EPOCH_FROM_S else "none",
        where=str(path),
    )
    return History(work=work, text=f"{path.name}, {counted(len(columns['t']), 'point')}")


def _with_time(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the columns with the time as `t`, in seconds, whatever its name and unit (seconds or ms)."""
    named = next((name for name in columns if name.strip().lower() in TIME_NAMES), None)
    if named is None:
        return dict(columns)
    t_s = columns[named]
    in_ms = bool(len(t_s)) and float(np.nanmedian(t_s)) > _EPOCH_MS_FROM
    return {
        "t": t_s / 1000.0 if in_ms else t_s,
        **{name: values for name, values in columns.items() if name != named},
    }


def _rates(columns: Mapping[str, Floats], assumed: Defaults) -> tuple[list[Floats], list[Floats | None]]:
    """Return reads and writes per second, and their bytes per second where told."""
    if "iops" not in columns:
        traffic = [columns[name] * 2**20 if name in columns else None for name in _SPLIT[2:]]
        return [columns["reads_per_s"], columns["writes_per_s"]], traffic
    shares = (assumed.read_share, 1.0 - assumed.read_share)
    rates = [columns["iops"] * share for share in shares]
    if "mib_per_s" not in columns:
        return rates, [None, None]
    return rates, [columns["mib_per_s"] * 2**20 * share for share in shares]


def _only_text(path: Path) -> tuple[str, str]:
    """Name and text of a file, or of the only one that is packed in it."""
    candidates = list(contents(path))
    if len(candidates) != 1 or candidates[0].problem:
        raise UsageError(
            "this is not one file that can be read",
            where=str(path),
            evidence=next((candidate.problem for candidate in candidates), "")
            or f"it holds {counted(len(candidates), 'file')}",
            next_step=f"give one file with {_LAYOUT}",
        )
    return candidates[0].name, candidates[0].text


def _csv_columns(text: str, path: Path) -> dict[str, Floats]:
    heading = text.partition("\n")[0]
    is_semicolon = ";" in heading and "," not in heading  # so do locales whose decimal point is a comma
    try:
        table = pa_csv.read_csv(
            io.BytesIO(text.encode()),
            parse_options=pa_csv.ParseOptions(delimiter=";" if is_semicolon else ","),
            convert_options=pa_csv.ConvertOptions(decimal_point="," if is_semicolon else "."),
        )
        table.column_names  # noqa: B018 - they are decoded here
    except (OSError, UnicodeError, pa.ArrowException) as error:
        raise UsageError(
            "cannot be read as CSV",
            where=str(path),
            evidence=_first_line(error),
            next_step=f"give {_LAYOUT}",
        ) from error
    names = table.column_names
    if len({name.strip().lower() for name in names}) < len(names):
        raise UsageError("two columns have one name", where=str(path), evidence=", ".join(names)[:200])
    return {name.strip().lower(): _numbers(table.column(at), name, path) for at, name in enumerate(names)}


def _json_columns(text: str, path: Path) -> dict[str, Floats]:
    try:
        rows = parse_json(text)
        table = pa.Table.from_pylist(rows)
        if not all(isinstance(name, str) for row in rows for name in row):
            raise TypeError("a row is no object")
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, KeyError, pa.ArrowException) as error:
        raise UsageError(
            "cannot be read as a JSON list of objects", where=str(path), evidence=_first_line(error)
        ) from error
    return {name: _numbers(table.column(name), name, path) for name in table.column_names}


def _numbers(column: pa.ChunkedArray, name: str, path: Path) -> Floats:
    """Return a column as floats, times as epoch seconds, what is missing as NaN."""
    try:
        if name.strip().lower() in TIME_NAMES and not (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        ):
            column = _seconds(column)
        values = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
        if (np.abs(values) > NUMBER_MAX).any():
            raise ValueError(f"{np.nanmax(np.abs(values)):g} is no measured number")
        return values
    except (pa.ArrowException, ValueError) as error:
        noun = "time" if name.strip().lower() in TIME_NAMES else "number"
        value = next((value for value in column.to_pylist() if not _is_of(value, noun)), "")
        raise UsageError(
            f"column {name!r} holds what is no {noun}",
            where=str(path),
            evidence=f"{value!r}"[:100],
            next_step=f"give {_LAYOUT}; an ISO time is 2026-01-31T12:00:00Z or 2026-01-31 12:00:00",
        ) from error


def _seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return moments as epoch seconds, times of day as seconds since midnight. Raises ArrowException."""
    if pa.types.is_time(column.type):
        return pa_compute.divide(column.cast(pa.time64("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
    moments = column.cast(pa.timestamp("us", tz="UTC" if _has_zone(column) else None))
    return pa_compute.divide(moments.cast(pa.int64()).cast(pa.float64()), 1e6)


def _is_of(value: object, noun: str) -> bool:
    """Return whether one value of a column is a time, or a number."""
    try:
        if noun == "number":
            return value is None or abs(float(str(value))) <= NUMBER_MAX
        datetime.fromisoformat(str(value).strip())
    except ValueError:
        return False
    return True


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _has_zone(column: pa.ChunkedArray) -> bool:
    if pa.types.is_timestamp(column.type):
        return column.type.tz is not None
    return any(str(value).endswith("Z") or "+" in str(value) for value in column[:1])
