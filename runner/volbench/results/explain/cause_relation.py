"""What a metric that moves with p95 is to the first cause of its step.

By descriptors: the cause is about it (`CauseInfo.accounts_for`), or the cause's waits are part of it, or it is the
work of the process that carries out the cause's operations, or it is the load's rate by another name. Where none of
this holds, the cause does not account for it.

By the recorded seconds: whatever it is, it may move along with the cause's own metric, as one that shows the same
wait does (`Association.moves_along`). That is no proof that the cause moves it. What does not move along is no
proof of the contrary: a cause may explain a latency and none of its changes. So nothing here objects to a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from volbench.core.records.layout import base_source, source_of_component
from volbench.core.records.report import FindingRow
from volbench.core.records.report.findings import CauseRelation
from volbench.core.records.sources import SOURCES
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.evidence.association import Association, implausible_reason, moves_with
from volbench.results.explain.topics import Topic, consists_of, contains, serves, topic_of
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

_OPEN = frozenset({"not accounted for", "not known"})
"""What recorded seconds may show to move along with the cause's own metrics."""


def first_cause(findings: Sequence[FindingRow], volume: str, step: str) -> FindingRow | None:
    """Return the first finding of a volume's step; None where none is named."""
    return next((row for row in findings if (row.volume, row.step) == (volume, step)), None)


def cause_of(finding: FindingRow | None) -> str:
    """Return the name of a finding's cause, with the component of a layout that it is about; empty of none."""
    return "" if finding is None else named_of_component(finding.cause, finding.component)


def named_of_component(cause: str, component: str) -> str:
    """Return `storage.iops_limit@log`; of the data's own volume the cause alone."""
    return source_of_component(cause, component) if component else cause


def relation_by_descriptors(key: SeriesKey, rho: float, cause: str) -> CauseRelation:
    """Return what a metric is to a cause by what both are about.

    Args:
        key: the metric.
        rho: its correlation with p95.
        cause: as `cause_of` names it; empty: none is named.
    """
    if implausible_reason(key.source, key.metric, rho):
        return "reversed"
    if not cause:
        return ""
    name, component = base_source(cause)
    topic = topic_of(key.source, key.metric, key.entity)
    about = CAUSES[name].accounts_for if name in CAUSES else frozenset()
    if topic is None or not about:
        return "not known"
    return _by_topics(topic, about) if _may_be_of(key, component) else "not accounted for"


def _by_topics(topic: Topic, about: frozenset[Topic]) -> CauseRelation:
    """Return what a metric of a topic is to a cause of some topics."""
    relations: tuple[tuple[CauseRelation, bool], ...] = (
        ("accounted for", topic in about),
        ("layer above", contains(topic, about)),
        ("served", serves(topic, about)),
        ("restated", topic == "statements"),
    )
    return next((relation for relation, holds in relations if holds), "not accounted for")


def relation_of(association: Association, cause: str) -> CauseRelation:
    """Return what a metric is to a cause, by descriptors and by the recorded seconds."""
    relation = relation_by_descriptors(association.key, association.rho, cause)
    return "shared" if relation in _OPEN and association.moves_along(cause) else relation


def _may_be_of(key: SeriesKey, component: str) -> bool:
    """Whether a metric is of no device, or of that of a component."""
    base, of_component = base_source(key.source)
    return base not in SOURCES or SOURCES[base].role != "device" or of_component == component


def counterparts(grid: Grid, latency: SeriesKey, causes: Iterable[str]) -> Callable[[SeriesKey], dict[str, Floats]]:
    """Return what gives, for a metric, the column of each cause that moves most with the latency.

    A cause's columns are those that it accounts for, and those of layers above that have nothing else as a part.
    One of the metric's own topic is none: it would explain itself.

    Args:
        grid: the step's series.
        latency: the series to explain.
        causes: of the step, as `named_of_component` names them.
    """
    of_causes = {cause: _strongest_of(grid, latency, cause) for cause in causes}

    def of_metric(key: SeriesKey) -> dict[str, Floats]:
        topic = topic_of(key.source, key.metric, key.entity)
        columns = {
            cause: [column for about, column in strongest.items() if about != topic]
            for cause, strongest in of_causes.items()
        }
        return {cause: listed[0] for cause, listed in columns.items() if listed}

    return of_metric


def _strongest_of(grid: Grid, latency: SeriesKey, cause: str) -> dict[Topic, Floats]:
    """Return the column of a cause that moves most with the latency, and that of a second topic, by topic."""
    name, component = base_source(cause)
    target, about = grid.columns.get(latency), CAUSES[name].accounts_for if name in CAUSES else frozenset()
    if target is None:
        return {}
    by_topic: dict[Topic, tuple[float, SeriesKey]] = {}
    for key in grid.columns:
        topic = topic_of(key.source, key.metric, key.entity)
        if topic is None or not _may_be_of(key, component) or not consists_of(topic, about):
            continue
        rho = moves_with(grid.columns[key], target)
        if rho and not implausible_reason(key.source, key.metric, rho):
            by_topic[topic] = max(by_topic.get(topic, (0.0, key)), (abs(rho), key))
    strongest = sorted(by_topic, key=lambda topic: by_topic[topic], reverse=True)[:2]
    return {topic: grid.columns[by_topic[topic][1]] for topic in strongest}
