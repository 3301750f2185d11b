"""Validity rules: when a step's numbers are not to be averaged in, each reason with its evidence."""

from __future__ import annotations

import math

from volbench.core.base.text import percent
from volbench.core.records.cell import Disturbance, ValidityLimits
from volbench.results.compare.disturbance import delayable_share, disturbance, disturbances
from volbench.results.compare.validity.observation import CellObservation

SMALL_READ_MIB = 16.0
"""Below this much server reading, device against server is not judged: one prefetch decides the ratio."""
FOREIGN_READ_MIB = 64.0
"""So much may be read beside the server without a word: programs being loaded, a log being looked at."""
CHANCE_SIGMAS = 3.0
"""Arrivals are Poisson: a rate that falls short by no more than so many standard deviations is chance."""
CPUS_USED_MAX = 0.9
"""Above this share of all CPUs in use, the load and other work take them from each other."""
CLIENT_THROTTLED_MAX = 0.5
"""Share of periods in which a CPU quota may hold the client back."""


def delayable_share_of(observation: CellObservation) -> float:
    """Return the share of the clients' time in which a disturbance can have delayed them at all."""
    return delayable_share(
        clients=observation.clients,
        reading=observation.reading,
        lateness_s_per_s=observation.emulator_lateness_s_per_s,
    )


def covariates_of(observation: CellObservation, limits: ValidityLimits) -> dict[str, float]:
    """Return the shares that other work took: of the CPUs, and of the device's operations; without unknown ones.

    Where all CPUs were in use, what others took depends on what the load left them: a faster volume's load takes
    more. Their share is then no cause of the load's speed but its consequence, and not given. What they wanted is:
    the part of the CPUs that a task misses beside their runnable threads. I/O at rest within its limit is the file
    system's own and counts as none.
    """
    shares = {}
    if observation.cpu is not None:
        if observation.cpu.wanted_ratio is not None:
            shares["cpu_wanted"] = observation.cpu.wanted_ratio
        taken_share = observation.cpu.foreign_ratio + (observation.steal_ratio or 0.0)
        if taken_share + observation.cpu.own / observation.cpu.cpus <= CPUS_USED_MAX:
            shares["cpu_taken"] = min(1.0, taken_share)
    foreign, device = observation.foreign_iops, observation.device_iops
    if foreign is not None and device:
        shares["io_taken"] = min(1.0, foreign / device) if foreign > limits.foreign_iops else 0.0
    return shares


def disturbances_of(observation: CellObservation, limits: ValidityLimits) -> tuple[Disturbance, ...]:
    """Return what delayed the step from outside, each with a bound on its effect; none within all limits."""
    return disturbances(
        limits,
        cpu=observation.cpu,
        cpus=observation.cpus,
        steal_ratio=observation.steal_ratio,
        late_ratio=observation.emulator_late_ratio,
        lateness_s_per_s=observation.emulator_lateness_s_per_s,
        lateness_changes=observation.lateness_changes,
        unbounded=(
            *_swapping(observation, limits),
            *_foreign_io(observation, limits),
            *_other_readers(observation, limits),
        ),
    )


def _swapping(observation: CellObservation, limits: ValidityLimits) -> list[Disturbance]:
    pages = observation.swapped_pages
    if pages is None or pages <= limits.swap_pages:
        return []
    text = f"the host swapped {pages:.0f} pages (limit {limits.swap_pages})"
    return [disturbance("swapping", pages, limits.swap_pages, 1.0, text)]


def invalid_reasons(observation: CellObservation, limits: ValidityLimits) -> tuple[str, ...]:
    """Return a sentence for each rule that the observation breaks; none: the step is valid."""
    return (*own_reasons(observation, limits), *outside_reasons(observation, limits))


def own_reasons(observation: CellObservation, limits: ValidityLimits) -> tuple[str, ...]:
    """Return the broken rules that the cell's own set-up breaks.

    The same cell, run again, would break them again.
    """
    reasons = []
    if observation.client_cpu_ratio is not None and observation.client_cpu_ratio > limits.client_cpu:
        reasons.append(
            f"the client was CPU-bound: sysbench used {percent(observation.client_cpu_ratio)} of the CPU it can use"
            f" (limit {percent(limits.client_cpu)})"
        )
    if observation.client_throttled_ratio is not None and observation.client_throttled_ratio > CLIENT_THROTTLED_MAX:
        reasons.append(
            f"the client was CPU-bound: a quota held it back in {percent(observation.client_throttled_ratio)} of"
            f" its periods (limit {percent(CLIENT_THROTTLED_MAX)})"
        )
    if (
        observation.offered_ratio is not None
        and observation.offered_ratio < 1 - limits.rate_shortfall - shortfall_by_chance(observation.offered_due)
    ):
        reasons.append(
            f"the load generator fell behind: it offered {percent(observation.offered_ratio)} of the rate"
            f" (limit {percent(1 - limits.rate_shortfall)})"
        )
    reasons += _cache_reasons(observation, limits)
    return tuple(reasons)


def outside_reasons(observation: CellObservation, limits: ValidityLimits) -> tuple[str, ...]:
    """Return the broken rules about what came from outside the cell: run again, it may fare better."""
    reasons = []
    if observation.missed_ratio is not None and observation.missed_ratio > limits.missed_samples:
        reasons.append(
            f"{percent(observation.missed_ratio)} of the samples were missed"
            f" (limit {percent(limits.missed_samples)})"
        )
    if observation.clock_step_s is not None and abs(observation.clock_step_s) > limits.clock_step_s:
        reasons.append(
            f"the wall clock was set by {observation.clock_step_s:+.2f} s (limit {limits.clock_step_s:g} s)"
        )
    reasons += [record.text for record in disturbances_of(observation, limits) if record.beyond]
    return tuple(reasons)


def notes_of(observation: CellObservation) -> tuple[str, ...]:
    """Return what could not be judged although the device is sampled, for the step's notes."""
    if observation.device_iops is not None and observation.foreign_iops is None:
        return ("whether the device was at rest before the cell is not known: no sample lies in that time",)
    return ()


def shortfall_by_chance(due: float | None) -> float:
    """Return by how much a Poisson rate may fall short by chance, as a share of the arrivals that were due."""
    return CHANCE_SIGMAS / math.sqrt(due) if due else 0.0


def _foreign_io(observation: CellObservation, limits: ValidityLimits) -> list[Disturbance]:
    """I/O of others counts when it is more than the limit and no small part of what the device did in the step."""
    foreign, own = observation.foreign_iops, observation.device_iops
    if foreign is None or foreign <= limits.foreign_iops:
        return []
    if own is not None and foreign <= limits.foreign_share * own:
        return []
    in_step = "" if own is None else f"; {percent(limits.foreign_share)} of the {own:.0f} in the step"
    text = (
        f"the device was not at rest before the cell: {foreign:.0f} I/O per second"
        f" (limit {limits.foreign_iops:.0f}{in_step})"
    )
    return [disturbance("foreign_io", foreign, limits.foreign_iops, 1.0, text)]


def _cache_reasons(observation: CellObservation, limits: ValidityLimits) -> list[str]:
    """Return the server's own count of bytes read against the device's.

    What no device delivered came from a cache.
    """
    server, device = observation.server_read_mib, observation.device_read_mib
    if server is None or device is None or server < SMALL_READ_MIB:
        return []
    if 1 - device / server <= limits.device_against_client:
        return []
    return [
        f"a cache answered: {_counts(server, device)}"
        f" (at most {percent(limits.device_against_client)} may be missing)"
    ]


def _other_readers(observation: CellObservation, limits: ValidityLimits) -> list[Disturbance]:
    """Return the bytes that others read: what the device gave beyond the server's count, where only it reads."""
    server, device = observation.server_read_mib, observation.device_read_mib
    if server is None or device is None or not observation.only_server_reads:
        return []
    allowed = max(FOREIGN_READ_MIB, limits.device_against_client * server)
    if device - server <= allowed:
        return []
    limit = f"at most {percent(limits.device_against_client)} may be beyond"
    text = f"others read from the device: {_counts(server, device)} ({limit})"
    return [disturbance("foreign_io", device - server, allowed, 1.0, text)]


def _counts(server_mib: float, device_mib: float) -> str:
    return f"the server read {server_mib:.0f} MiB, the device delivered {device_mib:.0f} MiB"
