"""core/records/named_metrics.py: a name for each metric of each source; a misspelt look-up then fails in mypy."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.sources import SOURCES

CLIENT = (
    *(f"latency_ms_{name}" for name in ("avg", "p50", "p95", "p99", "max")),
    *("tps", "queue_length", "threads_running", "errors_per_s", "reconnects_per_s"),
)
"""Series of the load, which no source of counters has; recordings have threads_running."""
RECORDED = {"cpu": ("nice_ratio",), "diskstats": ("operations_per_s", "await_ms", "mib_per_s")}
"""Metrics that only recordings of other tools have."""
_ABBREVIATED = frozenset({"cpu", "psi", "tcp", "vm"})
_HEAD = '''"""A name for each metric of each source, so that none is misspelt. `make docs` writes this module."""

from __future__ import annotations

from typing import NamedTuple


class NamedMetric(NamedTuple):
    """A metric of a source."""

    source: str
    name: str

    def of(self, source: str) -> NamedMetric:
        """Return the metric of the same name of another source."""
        return NamedMetric(source, self.name)
'''

_TAIL = '''

PERCENTILES = {"p95": Client.latency_ms_p95, "p99": Client.latency_ms_p99, "p50": Client.latency_ms_p50}
"""Of the clients' latency, the one that says most first."""
'''


def class_of(source: str) -> str:
    """What the class of a source is called."""
    return source.upper() if source in _ABBREVIATED else "".join(piece.capitalize() for piece in source.split("_"))


def metrics_of() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each source with its metrics, those of the client last."""
    for name, source in sorted(SOURCES.items()):
        yield name, (*source.metrics, *RECORDED.get(name, ()))
    yield "client", CLIENT


def metrics_module() -> str:
    """Return the module's text."""
    return _HEAD + "".join(_class(source, metrics) for source, metrics in metrics_of()) + _TAIL


def _class(source: str, metrics: tuple[str, ...]) -> str:
    rows = "".join(f'    {name} = NamedMetric("{source}", "{name}")\n' for name in metrics)
    return f'\n\nclass {class_of(source)}:\n    """Metrics of the source {source}."""\n\n{rows}'
