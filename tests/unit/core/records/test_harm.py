"""Each metric of a source says which change of it can raise a latency."""

from __future__ import annotations

from volbench.core.records.sources import SOURCES, harm_of

LESS = {
    ("cgroup_io", "read_iops_max"),
    ("cgroup_io", "read_mib_per_s_max"),
    ("cgroup_io", "write_iops_max"),
    ("cgroup_io", "write_mib_per_s_max"),
    ("cgroup_memory", "limit_mib"),
    ("cloudwatch", "balance_bytes"),
    ("cloudwatch", "balance_percent"),
    ("cloudwatch", "instance_byte_balance_percent"),
    ("cloudwatch", "instance_io_balance_percent"),
    ("cloudwatch", "permitted_mib_per_s"),
    ("cpu", "idle_ratio"),
    ("emulator", "balance_percent"),
    ("emulator", "disk_limit_per_s"),
    ("innodb", "buffer_pool_free_ratio"),
}
"""What is left of something, or allowed."""
EITHER = {("cgroup_memory", "used_mib"), ("diskstats", "r_size_kib"), ("diskstats", "w_size_kib")}
"""A larger operation takes longer, and smaller ones are more; memory in use is that of a cache, too."""


def test_what_is_left_or_allowed_does_harm_by_less() -> None:
    by_harm = {
        harm: {
            (name, metric)
            for name, source in SOURCES.items()
            for metric, described in source.metrics.items()
            if described.harm == harm
        }
        for harm in ("less", "either")
    }
    assert by_harm == {"less": LESS, "either": EITHER}


def test_balances_and_limits_are_alike_in_every_source() -> None:
    """A source with a metric of this name later may not have it the other way round."""
    for name, source in SOURCES.items():
        for metric, described in source.metrics.items():
            if "balance" in metric or "_max" in metric.removesuffix("_ms_max") or metric.startswith("permitted"):
                assert described.harm == "less", (name, metric)


def test_of_a_metric_that_no_source_has_only_a_rate_has_a_direction() -> None:
    """Such as those of a plug-in, of a recording and of another version."""
    assert harm_of("plug-in", "credits_left") == "either"
    assert harm_of("diskstats", "operations_per_s") == "more"
    assert harm_of("cpu", "idle_ratio") == "less"
