"""Source `tasks`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

CARRIERS_OF_IO = ("emulator", "io_workers")
"""Entities whose CPU time is neither the cell's own nor that of other work: they carry out the cell's I/O."""

_METRICS = metric_table(
    "server, client, cell, sampler, emulator or io_workers",
    {
        "cpus_used": ("1", "CPUs that the processes used, 1 is one CPU all the time"),
        "run_delay_s_per_s": ("s/s", "time their tasks were runnable and waited for a CPU"),
    },
)
SOURCE = SourceInfo(
    name="tasks",
    role="host",
    text="The cell's own processes; entity `server`, `client` (the load's with agent and sampler), `cell` (both),"
    " `sampler`, `emulator` (the volume's daemon), or `io_workers` (the kernel's threads that carry out I/O: work"
    " queues, soft interrupts, journals; CPUs only). Older series have `cell` and `emulator` only.",
    metrics=_METRICS,
)
