"""From a measurement to a profile, so that a volume can be emulated elsewhere."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from volbench.core.base.text import percent
from volbench.core.base.units import GIB, MIB
from volbench.core.profile.schema import PROFILE_SCHEMA
from volbench.errors import Refused, StepFailed, UsageError
from volbench.machine.volume.facts.discovery import REMOTE_FILESYSTEMS
from volbench.machine.volume.probe.figures import PAGE_BYTES, SMALL_BYTES, STREAM_DEPTH
from volbench.machine.volume.probe.measurement import Probe

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_ALIKE = 0.1
_TAIL = 3.0
_NO_FLUSH = 0.1
"""An fdatasync shorter than this share of a write waits for nothing: written data is durable already."""


def check_destination(path: Path) -> None:
    """Raise UsageError for a path that cannot be a profile, Refused for an existing file."""
    if path.suffix != ".yaml" or _NAME.fullmatch(path.stem) is None:
        raise UsageError(
            f"{path} is not a profile's file name", where="--fit", next_step="for instance --fit mine.yaml"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path.absolute().parent} is not a directory", where="--fit")
    if path.exists():
        raise Refused(f"{path} already exists", where="--fit", next_step="remove the file, or choose another path")


def fitted_profile(probe: Probe, name: str, *, on: datetime.date) -> str:
    """Return the YAML of a profile that emulates the measured volume.

    Args:
        name: the stem of the file it is for.
        on: the day of the measurement.

    Raises StepFailed if the machine was too busy during the probe.
    """
    if probe.delayed:
        raise StepFailed(
            "the machine was too busy to fit a profile",
            where="--fit",
            evidence=f"other work used {percent(probe.foreign_cpu_ratio)} of the CPUs;"
            f" delayed: {', '.join(probe.delayed)}",
            next_step="probe again when the machine is idle, or with a longer --seconds",
            cause="machine_busy",
        )
    fit = _Fit(probe, source=f"measured by volbench volume probe on {on.isoformat()}")
    profile = {
        "schema": PROFILE_SCHEMA,
        "name": name,
        "title": f"Fitted to {probe.facts.filesystem or 'a volume'} at {probe.facts.path}",
        "text": "Measured by one probe, which cannot know of later bursts, other users or slower days.",
        "mode": fit.mode,
        "durability": fit.durability,
        "size_bytes": "size",
        "parameters": fit.parameters(),
        "figures": fit.figures,
        **fit.caching(),
        "limits": list(fit.limits()),
        "latency": fit.latency(),
    }
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 116
    yaml.dump(profile, stream)
    return stream.getvalue()


class _Fit:
    """Builds the sections of a profile; each section adds its `figures`."""

    def __init__(self, probe: Probe, *, source: str) -> None:
        self._measured = probe.figures
        self._probe = probe
        self._source = source
        filesystem = probe.facts.filesystem or ""
        remote = filesystem in REMOTE_FILESYSTEMS or filesystem.startswith("fuse")
        self.mode = "files" if remote else "block"
        self.durability = "write_through" if self._waits_for_nothing() else "write_back"
        self.figures: dict[str, dict[str, Any]] = {}

    def _waits_for_nothing(self) -> bool:
        sync, write = self._measured.get("fdatasync_ms"), self._measured["write_4k_ms"]
        return sync is not None and sync < _NO_FLUSH * write

    def parameters(self) -> dict[str, Any]:
        size_gib = max(1, (self._probe.facts.size_bytes or GIB) // GIB)
        self._figure("size_default", f"{size_gib}GiB", "bytes", source="size of the file system that was measured")
        specs: dict[str, Any] = {"size": {"kind": "size", "default": "size_default", "text": "size of the volume"}}
        if self._probe.fall is not None and self._probe.fall.after_s is not None:
            specs["credits"] = {"kind": "share", "default": 1, "text": "how full the credit bucket is at first"}
        return specs

    def caching(self) -> dict[str, str]:
        """Return how long a client caches attributes of a file server: a probe cannot measure that."""
        if self.mode != "files":
            return {}
        source = "Linux NFS client: acregmin"
        return {"attribute_ttl_s": self._figure("attribute_ttl", 3.0, "s", source=source, assumed=True)}

    def limits(self) -> Iterator[dict[str, Any]]:
        """Yield limits of IOPS and throughput, each shared by reads and writes, and credits if a burst ended."""
        yield self._limit("volume.iops", "iops", "io", ("read_iops", "write_iops"), "IOPS", scale=1.0)
        yield self._limit(
            "volume.throughput",
            "throughput",
            "byte",
            ("read_mib_per_s", "write_mib_per_s"),
            "bytes per s",
            scale=MIB,
        )
        fall = self._probe.fall
        if fall is None or fall.after_s is None:
            return
        baseline = self._figure("baseline", round(fall.last, 1), "IOPS")
        spent = round((fall.first - fall.last) * fall.after_s)
        bucket = self._figure(
            "credit_bucket",
            spent,
            "I/O credits",
            assumed=True,
            source="the balance at the probe's start, computed from the burst's end; the full bucket is larger",
        )
        yield {
            "name": "volume.credits",
            "resource": "iops",
            "unit": "io",
            "rate_per_s": baseline,
            "burst": bucket,
            "credits": True,
            "fill": "credits",
        }

    def latency(self) -> dict[str, Any]:
        latencies = {operation: self._data_latency(operation) for operation in ("read", "write")}
        sync, sync_p99 = self._measured.get("fdatasync_ms"), self._measured.get("fdatasync_ms_p99")
        if sync is not None and sync_p99 is not None and self.durability != "write_through":
            times_ms = (
                self._trip_ms() if self.mode == "files" else 0.0
            )  # an fsync of a file there sends its times too
            latencies["flush"] = {"parts": [self._leg("flush", max(0.0, sync - times_ms), sync_p99)]}
        if self.mode == "files":
            latencies |= self._metadata_latency()
        return latencies

    def _data_latency(self, operation: str) -> dict[str, Any]:
        """Return the latency of 4 KiB, and the speed of one stream from the longer time of 16 KiB."""
        small_ms, page_ms = self._measured[f"{operation}_4k_ms"], self._measured[f"{operation}_16k_ms"]
        fixed_ms, stream = small_ms, None
        longer_ms = page_ms - small_ms
        if longer_ms > _ALIKE * small_ms:
            speed = (PAGE_BYTES - SMALL_BYTES) / (longer_ms / 1e3)
            # The probe's streams were several at a time: one that is slower than its share of them is noise.
            if speed * STREAM_DEPTH > self._measured[f"{operation}_mib_per_s"] * MIB:
                stream = self._figure(f"{operation}_stream", round(speed), "bytes per s")
                fixed_ms = max(0.0, small_ms - SMALL_BYTES / speed * 1e3)
        p99_ms: float | None = self._measured[f"{operation}_4k_ms_p99"] * fixed_ms / small_ms
        if operation in self._probe.throttled_alone:  # waits for the limit, which the profile has already
            p99_ms = None
        latency: dict[str, Any] = {"parts": [self._leg(operation, fixed_ms, p99_ms)]}
        if stream is not None:
            latency["stream_bytes_per_s"] = stream
        return latency

    def _metadata_latency(self) -> dict[str, Any]:
        """Return a round trip is half of open and close.

        From create and unlink the trips that go with them are taken off.

        With a create go a lookup, the write, the file's times and the close; with an unlink a lookup and the times.
        """
        trip_ms = self._trip_ms()
        create_ms = max(trip_ms, self._measured["create_ms"] - 3 * trip_ms - self._measured["write_4k_ms"])
        unlink_ms = max(trip_ms, self._measured["unlink_ms"] - 2 * trip_ms)
        trip = {"parts": [self._leg("trip", trip_ms)]}
        create = {"parts": [self._leg("create", create_ms)]}
        unlink = {"parts": [self._leg("unlink", unlink_ms)]}
        return {"metadata": trip, "create": create, "rename": create, "unlink": unlink}

    def _trip_ms(self) -> float:
        return self._measured["open_ms"] / 2

    def _leg(self, name: str, median_ms: float, p99_ms: float | None = None) -> dict[str, str]:
        """Return a leg of a median, and of a p99 that was measured or is guessed."""
        median = self._figure(f"{name}_median", round(median_ms * 1e3, 1), "us")
        if p99_ms is None:
            tail_us = round(_TAIL * median_ms * 1e3, 1)
            p99 = self._figure(f"{name}_p99", tail_us, "us", source="volbench's guess", assumed=True)
        else:
            p99 = self._figure(f"{name}_p99", round(max(p99_ms, median_ms) * 1e3, 1), "us")
        return {"median_us": median, "p99_us": p99}

    def _limit(
        self, name: str, resource: str, unit: str, sides: tuple[str, str], of: str, *, scale: float
    ) -> dict[str, Any]:
        """Return one limit for reads and writes.

        The larger rate, at which the slower side's operations weigh more.
        """
        read, write = (self._measured[side] * scale for side in sides)
        rate = self._figure(resource, round(max(read, write), 1), of)
        limit: dict[str, Any] = {
            "name": name,
            "resource": resource,
            "unit": unit,
            "rate_per_s": rate,
            "burst": f"{rate} * tolerance_s",
        }
        if min(read, write) < (1 - _ALIKE) * max(read, write):
            limit["weights"] = {
                side: self._figure(f"{resource}_{side}_weight", round(max(read, write) / own, 4), "of the limit")
                for side, own in (("read", read), ("write", write))
            }
        return limit

    def _figure(self, name: str, value: float | str, unit: str, *, source: str = "", assumed: bool = False) -> str:
        self.figures[name] = {"value": value, "unit": unit, "source": source or self._source, "assumed": assumed}
        return name
