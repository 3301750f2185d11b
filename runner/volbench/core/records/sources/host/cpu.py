"""Source `cpu`."""

from __future__ import annotations

from volbench.core.records.sources.info import SourceInfo, metric_table

_METRICS = metric_table(
    "",
    {
        "user_ratio": ("1", "share of all CPUs' time in user mode"),
        "system_ratio": ("1", "share of all CPUs' time in the kernel, with interrupts"),
        "iowait_ratio": ("1", "share of all CPUs' time idle while a task waited for I/O"),
        "steal_ratio": ("1", "share of all CPUs' time taken by the hypervisor"),
        "idle_ratio": ("1", "share of all CPUs' time idle otherwise"),
        "least_busy_ratio": ("1", "share of time in which the CPU with least to do was not idle"),
        "context_switches_per_s": ("1/s", "context switches"),
        "processes_started_per_s": ("1/s", "processes and threads started"),
        "runnable_threads": ("1", "threads running or ready at the tick"),
        "blocked_threads": ("1", "threads waiting for I/O at the tick"),
    },
    less=("idle_ratio",),
)
SOURCE = SourceInfo(
    name="cpu",
    role="host",
    text="The machine, not the container.",
    metrics=_METRICS,
)
