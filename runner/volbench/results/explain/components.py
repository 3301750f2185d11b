"""A layout's volumes, each by itself: the step as the volume of the logs sees it, and as that of the data does.

The files of a role are on one volume alone. So the counters of that volume's device stand for the device, and of
the server's waits for files those of the role's files count; what waits for other volumes is no time of this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.layout import ComponentFacts, Role, base_source
from volbench.core.records.named_metrics import Innodb, NamedMetric, PerformanceSchema
from volbench.core.records.sources import SOURCES
from volbench.core.records.sources.server.performance_schema import WaitClass
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.disks_below import disks_below, disks_of_stack
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

_FILES: Mapping[Role, str] = {"redo": "redo", "binlog": "binlog", "doublewrite": "dblwr"}
"""performance_schema's class of a role's files. Undo tablespaces are counted with the data, temporary files with
waits of no class: their volumes are sampled, and not explained."""
_WAITS: Mapping[Role, tuple[WaitClass, ...]] = {
    "redo": ("file_redo",),
    "binlog": ("file_binlog", "binlog_group"),
    "doublewrite": ("file_dblwr",),
}
_OF_DATA: WaitClass = "file_data"
_WAITS_FOR_FILES: frozenset[str] = frozenset({_OF_DATA, *(wait for waits in _WAITS.values() for wait in waits)})
"""Of `wait_s_per_s`, the classes that are of files."""
_INNODB = Innodb.row_lock_waits_per_s.source
_ROW_LOCKS = frozenset({Innodb.row_lock_waits_per_s, Innodb.row_lock_wait_s_per_s, Innodb.row_lock_current_waits})
"""What InnoDB counts that is of no file."""
_OF_FILES: frozenset[NamedMetric] = frozenset(
    {
        PerformanceSchema.file_reads_per_s,
        PerformanceSchema.file_writes_per_s,
        PerformanceSchema.file_syncs_per_s,
        PerformanceSchema.file_read_s_per_s,
        PerformanceSchema.file_write_s_per_s,
        PerformanceSchema.file_sync_s_per_s,
        PerformanceSchema.file_read_ms,
        PerformanceSchema.file_write_ms,
        PerformanceSchema.file_sync_ms,
        PerformanceSchema.file_read_mib_per_s,
        PerformanceSchema.file_write_mib_per_s,
    }
)
"""What performance_schema counts by class of files."""
_LOG_WRITERS = "innodb_log_writer_threads"
"""Says that commits wait for the redo log without an instrument."""


def component_cases(case: Case, layout: Collection[ComponentFacts]) -> Iterator[tuple[str, Case]]:
    """Yield the step as each of a layout's other volumes sees it, by the component's name."""
    for component in layout:
        roles = [role for role in component.roles if role in _FILES]
        if not roles:
            continue
        facts = component.volume_facts
        yield (
            component.name,
            replace(
                case,
                grid=_of_component(case.grid, component.name, roles),
                cell_grid=_of_component(case.cell_grid, component.name, roles),
                disk=facts.disk,
                profile=profile_below(facts),
                below=disks_below(facts),
                disks=disks_of_stack(facts),
                read_ahead_kib=facts.read_ahead_kib,
                mount_options=tuple(facts.mount_options),
                journal=facts.journal_devices,
                variables=_variables(case.variables, keep="redo" in roles),
            ),
        )


def profile_below(facts: VolumeFacts) -> str:
    """Return the name of an emulated volume's profile, of that below it where it stands on one; else empty."""
    return str(facts.emulated_parameters.get("base") or facts.emulated_profile or "")


def data_case(case: Case) -> Case:
    """Return the step as the volume of the data sees it: without waits for files that are elsewhere."""
    roles = [role for role in case.elsewhere if role in _FILES]
    if not roles:
        return case
    return replace(
        case,
        grid=_without(case.grid, roles),
        cell_grid=_without(case.cell_grid, roles),
        variables=_variables(case.variables, keep="redo" not in roles),
    )


def _variables(variables: Mapping[str, str], *, keep: bool) -> dict[str, str]:
    return {name: value for name, value in variables.items() if keep or name != _LOG_WRITERS}


def _of_component(grid: Grid, name: str, roles: Collection[Role]) -> Grid:
    """Return the device's counters of one component, and of the server's files those of its roles."""
    columns: dict[SeriesKey, Floats] = {}
    for key, column in grid.columns.items():
        base, component = base_source(key.source)
        if component == name:
            columns[replace(key, source=base)] = column
        elif not component and _is_of_step(key):
            columns[key] = column
    files = {_FILES[role] for role in roles}
    waits = {wait for role in roles for wait in _WAITS[role]}
    remaining = {
        key: column
        for key, column in columns.items()
        if not (_is_of_files(key) and key.entity not in files | waits)
    }
    absent = [role for role in _FILES if role not in roles]
    return replace(grid, columns={**remaining, **_zeros(grid, absent)})


def _is_of_step(key: SeriesKey) -> bool:
    """Whether a series is about the load, the host or statements: no other volume's device or files."""
    if key.source == _INNODB:  # it counts all files together
        return NamedMetric(key.source, key.metric) in _ROW_LOCKS
    return key.source not in SOURCES or SOURCES[key.source].role != "device"


def _is_of_files(key: SeriesKey) -> bool:
    metric = NamedMetric(key.source, key.metric)
    is_wait = metric == PerformanceSchema.wait_s_per_s and key.entity in _WAITS_FOR_FILES
    return metric in _OF_FILES or is_wait


def _without(grid: Grid, roles: Collection[Role]) -> Grid:
    """Return a grid in which nothing waits for the files of some roles, and other volumes have no counters."""
    gone = {_FILES[role] for role in roles} | {wait for role in roles for wait in _WAITS[role]}
    remaining = {
        key: column
        for key, column in grid.columns.items()
        if not base_source(key.source)[1] and not (_is_of_files(key) and key.entity in gone)
    }
    return replace(grid, columns={**remaining, **_zeros(grid, roles)})


def _zeros(grid: Grid, roles: Collection[Role]) -> dict[SeriesKey, Floats]:
    """Return waits of nothing: an absent column would mean that the server does not show them."""
    nothing = np.zeros(len(grid))
    return {SeriesKey.of(PerformanceSchema.wait_s_per_s, wait): nothing for role in roles for wait in _WAITS[role]}
