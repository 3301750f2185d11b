"""What a metric that moves with p95 is to the first cause of its step, as half a clause."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.base.text import percent
from volbench.core.records.layout import base_source
from volbench.core.records.report import AssociationRow, FindingRow
from volbench.core.records.report.findings import CauseRelation
from volbench.results.explain.cause_relation import cause_of, first_cause, relation_by_descriptors
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.store.series import SeriesKey


def related(row: AssociationRow, findings: Sequence[FindingRow]) -> AssociationRow:
    """Return a row with what it is to the first cause; of an older report by what metric and cause are about.

    Args:
        row: of the report.
        findings: of the same report, those of one step in their order.
    """
    if row.relation or row.first_cause:
        return row
    cause = cause_of(first_cause(findings, row.volume, row.step))
    key = SeriesKey(source=row.source, metric=row.metric, entity=row.entity)
    relation = relation_by_descriptors(key, row.rho, cause)
    return row.model_copy(update={"first_cause": cause, "relation": relation})


def cause_clause(row: AssociationRow) -> str:
    """Return what a metric is to the first cause, to follow it; empty of one whose sign says that it is none."""
    return clause_of(row.relation, row.first_cause, row.rho, moves_along=row.moves_along)


def clause_of(relation: CauseRelation, first: str, rho: float, *, moves_along: bool | None) -> str:
    """Return the same of a metric.

    Args:
        relation: what it is to the first cause.
        first: that cause, as `named_of_component` names it; empty: none is named.
        rho: its correlation with p95.
        moves_along: whether it moves along with metrics of the cause; None: not computed.
    """
    if relation == "reversed":
        return ""
    if not first:
        return "; no cause is named"
    name, component = base_source(first)
    on = f" on {component}" if component else ""
    cause = "the acquittal of the volume" if name == NONE else f"the first cause, {name}{on},"
    along = {
        True: "metrics of the cause move along with it",
        False: "no metric of the cause moves along with it",
        None: "whether these make it move was not computed",
    }[moves_along]
    share = f"{percent(rho**2)} of the variance of p95's changes"
    unexplained = "" if moves_along is None else f", and {along}"
    texts = {
        "accounted for": f", as {cause} says",
        "layer above": f", of which waits of {cause} are a part; {along}",
        "served": f", work of the process that carries out operations of {cause}",
        "restated": f", the load's own rate, of which {cause} says nothing",
        "shared": f", which moves along with metrics of {cause}",
        "not accounted for": f", which {cause} does not account for: it explains {share}{unexplained}",
    }
    return texts.get(relation, f"; whether {cause} accounts for it is not known").removesuffix(",")
