"""A suite's forecast: when its load empties a volume's credit bucket, and how long its dump then takes."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve_spec, resolve_volume
from volbench.core.records.forecast import ForecastSpec
from volbench.core.records.run import VolumeSpec
from volbench.results.credits.dump import DumpLoad, forecast_dump
from volbench.results.credits.forecast import forecast
from volbench.results.credits.work import Work, constant


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is expected of one volume, every bucket full at first. None: it does not happen, or was not asked.

    Args:
        exhausted_after_s: from the begin of the load; None: the credits endure it.
        iops_before, iops_after: what the load gets.
        dump_now_s, dump_exhausted_s: the dump with the credits there are, and with none.
        time_scale: how many times smaller the buckets are than the vendor's.
    """

    volume: str
    profile: str
    exhausted_after_s: float | None
    refill_s: float | None
    iops_before: float
    iops_after: float | None
    dump_now_s: float | None
    dump_exhausted_s: float | None
    time_scale: float


def expected(spec: ForecastSpec, volume: VolumeSpec) -> Expected | None:
    """Return the forecast for a volume; None without a load, a known profile or credits."""
    if spec.iops is None or (volume.kind != "emulated" and not spec.volume):
        return None
    resolved = resolve_volume(volume) if volume.kind == "emulated" else resolve_spec(spec.volume, name="forecast")
    limits = limits_of(resolved)
    if not limits.buckets:
        return None
    predicted = forecast(limits, _load(spec.iops, spec.io_size_bytes, spec.read_share))
    dump = None
    if spec.dump_size_bytes:
        concurrent = (
            _load(spec.dump_concurrent_iops, spec.io_size_bytes, 1.0) if spec.dump_concurrent_iops else None
        )
        dump_spec = DumpLoad(bytes=spec.dump_size_bytes, io_bytes=spec.dump_io_size_bytes)
        dump = forecast_dump(limits, dump_spec, concurrent, window_s=spec.window_s)
    return Expected(
        volume=volume.name,
        profile=resolved.profile,
        exhausted_after_s=predicted.exhausted_after_s,
        refill_s=predicted.refill_s,
        iops_before=predicted.before.iops,
        iops_after=predicted.after.iops if predicted.after else None,
        dump_now_s=dump.now.beside_load_s if dump else None,
        dump_exhausted_s=dump.exhausted.beside_load_s if dump else None,
        time_scale=float(resolved.model["time_scale"]),
    )


def _load(iops: float, io_bytes: int, read_share: float) -> Work:
    reads_per_s = iops * read_share
    return constant(
        reads_per_s=reads_per_s, writes_per_s=iops - reads_per_s, read_bytes=io_bytes, write_bytes=io_bytes
    )
