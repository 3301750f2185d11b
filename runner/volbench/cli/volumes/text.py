"""The texts of `volbench volume`: profiles, emulated volumes, their counters, and a probe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from volbench.core.base.text import percent, size, three_digits
from volbench.core.profile.files import COMMON, load_profile
from volbench.core.profile.resolve import ResolvedVolume
from volbench.core.profile.schema import Profile
from volbench.machine.volume.emulated.status import VolumeStatus
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.machine.volume.probe.figures import FIGURES, SMALL_BYTES, credit_limits, expected_figures, rate_per_s
from volbench.machine.volume.probe.measurement import Probe
from volbench.machine.volume.probe.nearest import Nearest, unseen

_OVERHEAD_MS = 0.08
"""No emulated volume is faster: FUSE and the loop device take that long."""


def profile_lines(resolved: ResolvedVolume) -> Iterator[str]:
    """Yield a profile in three lines: title, main figures, assumed figures."""
    yield f"  {resolved.profile}: {resolved.title} ({resolved.mode})"
    figures = expected_figures(resolved)
    yield f"    {', '.join(_rates(figures))}{''.join(_credits(resolved))}"
    yield f"    assumed: {', '.join(own_assumed(resolved)) or 'nothing'}"


COLUMNS = ("name", "kind", "description", "figures", "assumed")
"""Of `volume list` as CSV and Markdown: profiles, then emulated volumes."""


def profile_row(resolved: ResolvedVolume) -> tuple[str, ...]:
    """Return a profile as a row of `COLUMNS`."""
    figures = f"{', '.join(_rates(expected_figures(resolved)))}{''.join(_credits(resolved))}"
    return (
        resolved.profile,
        "profile",
        f"{resolved.title} ({resolved.mode})",
        figures,
        ", ".join(own_assumed(resolved)),
    )


def volume_row(volume: VolumeStatus) -> tuple[str, ...]:
    """Return an emulated volume as a row of `COLUMNS`."""
    path = volume.data if volume.status == "running" else volume.directory
    return volume.name, "volume", f"{volume.profile or 'unknown profile'} at {path}", volume.status, ""


def own_assumed(resolved: ResolvedVolume) -> tuple[str, ...]:
    """Return the assumed figures of the profile itself, without those that every emulated volume has."""
    common = load_profile(COMMON).figures
    return tuple(name for name in resolved.assumed if name not in common)


def profile_data(resolved: ResolvedVolume) -> dict[str, Any]:
    """Return the same as JSON data."""
    return {
        "name": resolved.profile,
        "title": resolved.title,
        "mode": resolved.mode,
        "durability": resolved.durability,
        "parameters": dict(resolved.parameters),
        "figures": expected_figures(resolved),
        "assumed": list(own_assumed(resolved)),
    }


def profile_text(profile: Profile) -> Iterator[Text]:
    """Yield the whole profile: its parameters, then its figures with their sources."""
    yield Text(f"{profile.name}: {profile.title}")
    yield Text(profile.text)
    if profile.parameters:
        yield Text("\nparameters of a SPEC")
    for name, parameter in profile.parameters.items():
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        yield Text(f"  {name} = {_plain(parameter.default)}: {parameter.text}{choices}")
    yield Text("\nfigures")
    rows = dict(profile.figures)
    rows |= {f"{row}.{name}": figure for row, figures in profile.table.items() for name, figure in figures.items()}
    for name, figure in rows.items():
        certainty = "assumed" if figure.assumed else "known"
        yield Text(f"  {name} = {_plain(figure.value)} {figure.unit} ({certainty}): {figure.source}")


def volume_lines(volumes: Sequence[VolumeStatus]) -> Iterator[str]:
    """Yield emulated volumes with their status."""
    yield "Emulated volumes:" if volumes else "This machine has no emulated volumes."
    for volume in volumes:
        lifetime = "stays" if volume.owner_pid is None else f"of process {volume.owner_pid}"
        scale = volume.parameters.get("time_scale", 1)
        named = volume.profile or "no description, since its start was interrupted"
        profile = named if scale == 1 else f"{named} (time_scale {scale:g})"
        path = volume.data if volume.status == "running" else volume.directory
        yield f"  {volume.name}: {profile}, {volume.status}, {lifetime}: {path}"


def emulated_lines(volume: EmulatedVolume, data: Path) -> Iterator[str]:
    """Yield where a started volume is mounted, and the commands to use and remove it."""
    resolved = volume.resolved
    scale = resolved.parameters.get("time_scale", 1)
    yield f"{volume.name} emulates {resolved.title}: {', '.join(_rates(expected_figures(resolved)))}"
    if scale != 1:
        yield f"  its credit buckets are {scale} times smaller than the real ones (time_scale)"
    yield f"  mounted at: {data}"
    yield f"  use it:     volbench run suites/quick.yaml --volume {volume.name}=path:{data}"
    yield f"  watch it:   volbench volume counters {volume.name}"
    yield f"  remove it:  volbench volume remove {volume.name}"


def counters_tables(counted: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the counters of an emulated volume."""
    scale = f", time_scale {counted['time_scale']:g}" if counted["time_scale"] != 1 else ""
    yield Text(f"emulated {counted['profile']}, up for {counted['uptime_s']:.0f} s{scale}")
    table = Table("operation", "count", "errors", "MiB", "mean ms", "p50 ms", "p99 ms", box=None, pad_edge=False)
    for name, operation in counted["operations"].items():
        mean_ms = operation["time_us"] / operation["count"] / 1e3
        quantiles = [f"{_quantile_ms(operation['histogram'], share):.2f}" for share in (0.5, 0.99)]
        moved = f"{operation['bytes'] / 2**20:.1f}" if operation["bytes"] else ""
        table.add_row(
            name, f"{operation['count']:,}", f"{operation['errors']:,}", moved, f"{mean_ms:.2f}", *quantiles
        )
    yield table
    for balance in counted["balances"]:
        vendor = f" ({balance['metric']})" if balance["metric"] else ""
        yield Text(f"{balance['limit']}{vendor}: {percent(balance['percent'] / 100)} of the credits are left")
    for name, value_us in counted["exceeded"].items():
        if value_us:
            yield Text(f"{name.removesuffix('_us')} exceeded for {value_us / 1e6:.2f} s")
    fidelity = counted["fidelity"]
    yield Text(
        f"fidelity: {percent(fidelity['late_share'])} of {fidelity['operations']:,} operations were late, "
        f"by {fidelity['lateness_us_mean']:.0f} us on average over all operations"
    )


def probe_parts(probe: Probe, nearest: Sequence[Nearest]) -> Iterator[RenderableType]:
    """Yield the measurement next to the nearest profiles, and its limits."""
    facts = probe.facts
    yield Text(f"{probe.spec}: {facts.filesystem or 'unknown file system'} on {facts.device or 'no known device'}")
    table = Table(box=None, pad_edge=False)
    for heading in ("figure", "unit", "measured", *(near.profile.profile for near in nearest)):
        table.add_column(heading, no_wrap=heading == "figure")
    for name, kind in FIGURES.items():
        if name in probe.figures:
            table.add_row(
                kind.title,
                kind.unit,
                three_digits(probe.figures[name]),
                *(_profile_figure(near, name) for near in nearest),
            )
    table.add_row("distance", "about", "", *(f"{percent(math.expm1(near.distance))}" for near in nearest))
    yield table
    if nearest:
        yield Text(
            f"nearest profile: {nearest[0].profile.profile}, with its default parameters"
            " (~: assumed by the profile, weighs less)"
        )
    for note in probe_notes(probe, nearest):
        yield Text(f"- {note}")


def probe_data(probe: Probe, nearest: Sequence[Nearest]) -> dict[str, Any]:
    """Return the same as JSON data."""
    return {
        "schema": 1,
        "spec": probe.spec,
        "facts": probe.facts.model_dump(mode="json"),
        "figures": {name: {"value": value, "unit": FIGURES[name].unit} for name, value in probe.figures.items()},
        "fall": probe.fall.__dict__ if probe.fall else None,
        "direct": probe.direct,
        "file_bytes": probe.file_bytes,
        "operations": probe.operations,
        "moved_bytes": probe.moved_bytes,
        "emulated_late_share": probe.late_share,
        "held_back": dict(probe.delayed),
        "nearest": [
            {"profile": near.profile.profile, "distance": near.distance, "figures": dict(near.figures)}
            for near in nearest
        ],
        "notes": list(probe_notes(probe, nearest)),
    }


def probe_notes(probe: Probe, nearest: Sequence[Nearest]) -> Iterator[str]:
    """Yield the limits of the measurement."""
    yield from _notes_of_volume(probe)
    yield from _notes_of_machine(probe)
    yield from _notes_of_rates(probe)
    if min(probe.figures["read_4k_ms"], probe.figures["write_4k_ms"]) < _OVERHEAD_MS:
        yield f"An emulated volume cannot be as fast: its operations take at least {_OVERHEAD_MS} ms."
    yield (
        f"{probe.operations:,} I/Os and {size(probe.moved_bytes)} in {probe.seconds:.0f} s: a probe does not show "
        "later changes, such as the end of burst credits, maintenance, or other users."
    )
    if probe.fall is None and nearest:
        yield from unseen(nearest[0])


def _notes_of_volume(probe: Probe) -> Iterator[str]:
    facts = probe.facts
    if facts.memory_backed:
        yield f"This is memory ({facts.filesystem}), not durable storage."
    if facts.overlay:
        yield "This is a container's layer (overlay), not a volume."
    if facts.emulated_profile is not None:
        scale = facts.emulated_parameters.get("time_scale", 1)
        scaled = f", time_scale {scale:g}" if isinstance(scale, int | float) and scale != 1 else ""
        yield f"This volume is emulated ({facts.emulated_profile}{scaled}): the real storage was not measured."
    if probe.late_share is not None:
        yield f"{percent(probe.late_share)} of the emulated volume's operations were later than its model requires."
    if not probe.direct:
        yield "The file system does not support O_DIRECT: these figures include the page cache."


def _notes_of_machine(probe: Probe) -> Iterator[str]:
    if probe.delayed:
        phases = ", ".join(
            f"{phase} (at most {percent(delay_share)} of the time)" for phase, delay_share in probe.delayed.items()
        )
        yield (
            f"This machine was too busy: other work used {percent(probe.foreign_cpu_ratio)} of its CPUs and "
            f"delayed {phases}. These figures do not measure the volume, so no profile is named as the nearest."
        )


def _notes_of_rates(probe: Probe) -> Iterator[str]:
    fall = probe.fall
    if fall is not None and fall.after_s is None:
        yield (
            f"A burst ended early: one operation at a time did {fall.first:,.0f} IOPS, then many at a time only "
            f"{fall.last:,.0f}; later figures were measured without burst credits."
        )
    elif fall is not None and fall.after_s is not None:
        yield (
            f"A burst ended: {FIGURES[fall.figure].title} fell from {fall.first:,.0f} to {fall.last:,.0f} IOPS "
            f"after {fall.after_s:.0f} s; the table shows what it was before, "
            "later figures were measured without burst credits."
        )
    for operation in probe.throttled_alone:
        yield (
            f"One {operation} at a time met the limit of IOPS already: most pass at once, some wait for the limit."
            " The 99th percentile is that of the limit."
        )
    for name, mean in probe.uneven.items():
        yield (
            f"{FIGURES[name].title}: {three_digits(probe.figures[name])} {FIGURES[name].unit} is the median half "
            f"second, the mean is {three_digits(mean)}: the volume or this machine stalled in between."
        )
    for name in probe.unsaturated:
        yield f"{FIGURES[name].title}: the queue was the limit, not the volume; it can do more."


def _rates(figures: Mapping[str, float]) -> Iterator[str]:
    """Yield the main figures; one for reads and writes where both are equal."""
    for read, write, unit in (
        ("read_iops", "write_iops", "IOPS"),
        ("read_mib_per_s", "write_mib_per_s", "MiB/s"),
        ("read_4k_ms", "write_4k_ms", "ms"),
    ):
        texts = [three_digits(figures[name]) for name in (read, write) if name in figures]
        if texts:
            yield f"{texts[0]} {unit}" if len(set(texts)) == 1 else f"{texts[0]} read and {texts[1]} write {unit}"
    if "open_ms" in figures:
        yield f"open {three_digits(figures['open_ms'])} ms"


def _credits(resolved: ResolvedVolume) -> Iterator[str]:
    for limit in credit_limits(resolved):
        if limit["unit"] == "io":
            base = rate_per_s(resolved, "read", SMALL_BYTES, depth=1 << 20, credit=False)
            yield f"; {base:,.0f} IOPS when {limit['burst']:,.0f} credits are gone"
        else:
            base_mib, tebibytes = limit["rate_per_s"] / 2**20, limit["burst"] / 2**40
            yield f"; {base_mib:,.0f} MiB/s when {tebibytes:,.2f} TiB of credits are gone"


def _profile_figure(nearest: Nearest, name: str) -> str:
    if name not in nearest.figures:
        return ""
    return f"{'~' if name in nearest.assumed else ''}{three_digits(nearest.figures[name])}"


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"


def _quantile_ms(bins: Sequence[Mapping[str, Any]], share: float) -> float:
    """Return the middle of the bin that contains a quantile; its lower edge for a bin without an upper edge."""
    target, counted = share * sum(bin_row["count"] for bin_row in bins), 0
    for bin_row in bins:
        counted += bin_row["count"]
        if counted >= target:
            upper = bin_row["upper_us"] or bin_row["lower_us"]
            return float(bin_row["lower_us"] + upper) / 2e3
    return math.nan
