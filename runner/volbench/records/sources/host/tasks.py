"""Source `tasks`."""

from __future__ import annotations

from volbench.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "server, client, cell, sampler or emulator",
    {
        "cpus_used": ("1", "CPUs that the processes used, 1 is one CPU all the time"),
        "run_delay_s_per_s": ("s/s", "time their tasks were runnable and waited for a CPU"),
    },
)
SOURCE = SourceInfo(
    name="tasks",
    role="host",
    text="The cell's own processes; entity `server`, `client` (the load's with agent and sampler), `cell` (both),"
    " `sampler`, or `emulator` (the volume's daemon). Older series have `cell` and `emulator` only.",
    metrics=_METRICS,
)
