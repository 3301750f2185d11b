"""A run's directory explained: each step of each cell by itself, then the repeats of a volume together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from volbench.core.base.text import counted
from volbench.core.records.cell import CellResult
from volbench.core.records.layout import ComponentFacts
from volbench.core.records.named_metrics import Client
from volbench.core.records.report import FindingRow, RefutedRow
from volbench.core.records.steps import step_kind
from volbench.errors import RunUnreadable
from volbench.results.compare.step_validity import Reasons, invalid_reasons
from volbench.results.explain.accounts.demand import Demand, PredictionUnavailable, demand_of
from volbench.results.explain.accounts.interval_latencies import interval_latencies
from volbench.results.explain.accounts.per_transaction import PerTransaction, per_transaction
from volbench.results.explain.accounts.pool import Pool, pool_of
from volbench.results.explain.accounts.queries import QueryCost, query_costs
from volbench.results.explain.accounts.time_budget import TimeBudget, time_budget
from volbench.results.explain.accounts.waits import class_samples, samples_of, step_modulation
from volbench.results.explain.case import Case
from volbench.results.explain.cause_relation import counterparts, named_of_component
from volbench.results.explain.check.response import volume_share_max
from volbench.results.explain.clients_time import unaccounted_share
from volbench.results.explain.components import component_cases
from volbench.results.explain.evidence.association import CellCorrelations, cell_correlations
from volbench.results.explain.findings import Explanation, explain_case, explain_component
from volbench.results.explain.pooling import common_notes, finding_rows, refuted_rows, with_components
from volbench.results.explain.rules.advice import HALF
from volbench.results.explain.rules.by_response import measured_advice
from volbench.results.explain.run_cases import _IN_PARTS, cases_of
from volbench.results.explain.shares import HINT_BELOW, with_shares_that_fit
from volbench.results.explain.wording import row
from volbench.results.response.estimate import estimate
from volbench.results.response.measured import MeasuredResponse, measured_response
from volbench.results.response.model import NoResponse, Response
from volbench.results.response.samples import CellSamples
from volbench.results.store.loaded_run import LoadedRun
from volbench.results.store.series import SeriesKey

REASONS_MAX = 2
LATENCY = SeriesKey.of(Client.latency_ms_p95)


@dataclass(frozen=True, kw_only=True)
class StepView:
    """What one step of one cell showed, without its series."""

    explanation: Explanation
    per_transaction: PerTransaction
    queries: tuple[QueryCost, ...]
    demand: Demand | PredictionUnavailable
    length_s: float
    threads: int | None = None
    correlations: CellCorrelations = field(default_factory=dict)
    interval_s: float = 1.0
    time_budget: TimeBudget | None = None
    pool: Pool | None = None
    waits: CellSamples | None = None
    waits_by_query: Mapping[str, CellSamples] = field(default_factory=dict)
    base_await_ms: float | None = None
    invalid_reasons: tuple[str, ...] = ()
    components: Mapping[str, Explanation] = field(default_factory=dict)
    """Of a layout: what each of its other volumes did, by the component's name."""

    @property
    def valid(self) -> bool:
        """Whether its numbers may stand beside those of other cells."""
        return not self.invalid_reasons


@dataclass(frozen=True, kw_only=True)
class RunExplanation:
    """Findings of a run; `notes` says by volume and step what is missing, `views` by cell what it showed.

    `responses` says by step what a millisecond of the volume costs, over all of its volumes; `measured` has those
    that the server's counts confirm.
    """

    findings: tuple[FindingRow, ...]
    notes: dict[tuple[str, str], tuple[str, ...]]
    views: dict[tuple[str, str], dict[str, StepView]]
    refuted: tuple[RefutedRow, ...] = ()
    unreadable: tuple[str, ...] = ()
    responses: Mapping[str, Response | NoResponse] = field(default_factory=dict)
    measured: Mapping[str, MeasuredResponse] = field(default_factory=dict)


def explain_run(loaded: LoadedRun) -> RunExplanation:
    """All findings of a run so far. Cells without samples are passed over, damaged ones are named.

    Findings are of valid cells. Where a step has none, they are of its invalid cells, and each says so: what made
    them invalid may be the cause that is looked for.
    """
    run, results = loaded.run, loaded.results
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    reasons = invalid_reasons(run, results)
    views: dict[tuple[str, str], dict[str, StepView]] = {}
    unreadable = []
    for result in results:
        try:
            for case in cases_of(loaded, result):
                step_views = views.setdefault((volume_of[result.cell_id], case.name), {})
                invalid = _why_invalid(result, case.name, reasons[result.cell_id])
                view = _view(case, result.layout, invalid_reasons=invalid)
                waits = _waits(loaded, result, volume_of[result.cell_id], case)
                by_query = {} if waits is None else class_samples(waits, case)
                step_views[result.cell_id] = replace(view, waits=waits, waits_by_query=by_query)
        except RunUnreadable as error:
            unreadable.append(f"{error.where}: {error.what}")
    responses = _responses(views)
    measured = {
        step: confirmed
        for step, response in responses.items()
        if (confirmed := measured_response(response, _waits_of(views, step))) is not None
    }
    most = {key: _volume_share_max(responses.get(key[1]), cells) for key, cells in views.items()}
    return RunExplanation(
        findings=tuple(
            row
            for key, cells in views.items()
            for row in _with_advice(_findings(*key, cells, most[key]), cells, measured.get(key[1]))
        ),
        notes={key: _notes(cells) for key, cells in views.items()},
        views=views,
        refuted=tuple(row for key, cells in views.items() for row in _refuted(*key, cells, most[key])),
        responses=responses,
        measured=measured,
        unreadable=tuple(unreadable),
    )


def valid_views(cells: Mapping[str, StepView]) -> dict[str, StepView]:
    """Those of valid cells."""
    return {cell: view for cell, view in cells.items() if view.valid}


def _why_invalid(result: CellResult, name: str, reasons: Sequence[Reasons]) -> Reasons:
    """Why a case is invalid: as its own step is, or as any of the parts that are explained together."""
    reasons_found = [
        reason
        for step, invalid in zip(result.steps, reasons, strict=True)
        if step.step == name or (step.step.startswith(f"{name}/") and step_kind(step.kind).explained in _IN_PARTS)
        for reason in invalid
    ]
    return tuple(dict.fromkeys(reasons_found))


def _responses(views: Mapping[tuple[str, str], Mapping[str, StepView]]) -> dict[str, Response | NoResponse]:
    """Return the response of each step with transactions, over all volumes."""
    waits = {step: _waits_of(views, step) for step in dict.fromkeys(name for _, name in views)}
    return {step: estimate(cells) for step, cells in waits.items() if cells}


def _waits_of(views: Mapping[tuple[str, str], Mapping[str, StepView]], step: str) -> list[CellSamples]:
    """Return the samples of the cells that a step's response is of."""
    return [view.waits for view in response_views(views, step) if view.waits is not None]


def response_views(
    views: Mapping[tuple[str, str], Mapping[str, StepView]], step: str, volumes: Iterable[str] | None = None
) -> list[StepView]:
    """Return what a step's response is of: each volume's valid cells, or all cells of a volume without one.

    A slope between volumes needs all of them; awaits and latencies of a disturbed cell were measured together.

    Args:
        views: by volume and step, as in RunExplanation.
        step: name of the step.
        volumes: names in the order that is wanted; None: that of `views`.
    """
    names = dict.fromkeys(name for name, _ in views) if volumes is None else volumes
    of_volumes = (views.get((name, step), {}) for name in names)
    return [view for cells in of_volumes for view in (valid_views(cells) or cells).values()]


def _with_advice(
    rows: Sequence[FindingRow], cells: Mapping[str, StepView], measured: MeasuredResponse | None
) -> Iterator[FindingRow]:
    """Yield findings of a volume's step, with what a faster volume gives by the measured response."""
    for finding in rows:
        view = cells.get(finding.cell_ids[0]) if finding.cell_ids else None
        level = None if measured is None or view is None else measured.level(finding.volume, view.threads)
        base_ms = None if view is None else view.base_await_ms
        more = measured_advice(finding.cause, measured, level, base_ms, estimates_p95=HALF in finding.advice)
        is_whole = not finding.component and (finding.confidence or 0.0) >= HINT_BELOW
        yield finding.model_copy(update={"advice": finding.advice + more}) if more and is_whole else finding


def _volume_share_max(response: Response | NoResponse | None, cells: Mapping[str, StepView]) -> float | None:
    used = [view.waits for view in (valid_views(cells) or cells).values() if view.waits is not None]
    return volume_share_max(response, used)


def _findings(
    volume: str, step: str, cells: Mapping[str, StepView], volume_share: float | None
) -> tuple[FindingRow, ...]:
    """Findings of the valid cells; of all where none is valid."""
    valid = valid_views(cells)
    explained = {cell: view.explanation for cell, view in (valid or cells).items()}
    left_out = len(cells) - len(explained)
    of_components = tuple(_component_rows(volume, step, valid or cells, left_out))
    rows = finding_rows(
        volume,
        step,
        explained,
        left_out=left_out,
        volume_share_max=volume_share,
        other_causes=[finding.cause for finding in of_components],
    )
    rows = with_components(rows, of_components)
    if valid:
        return rows
    invalid = row("invalid_cells", len(cells), "1", f"no valid cell: {_first_reasons(cells)}")
    return tuple(
        entry.model_copy(update={"valid": False, "evidence": (*entry.evidence, invalid)}) for entry in rows
    )


def _component_rows(volume: str, step: str, cells: Mapping[str, StepView], left_out: int) -> Iterator[FindingRow]:
    """Findings of a layout's other volumes. The response is of the data's volume: it bounds none of them."""
    for name in dict.fromkeys(name for view in cells.values() for name in view.components):
        explained = {cell: view.components[name] for cell, view in cells.items() if name in view.components}
        for finding in finding_rows(volume, step, explained, left_out=left_out):
            yield finding.model_copy(update={"component": name})


def _refuted(
    volume: str, step: str, cells: Mapping[str, StepView], volume_share: float | None
) -> Iterator[RefutedRow]:
    """What would have been named in the valid cells, or in all where none is valid, and is not."""
    used = {cell: view.explanation for cell, view in (valid_views(cells) or cells).items()}
    yield from refuted_rows(volume, step, used, volume_share_max=volume_share)


def _notes(cells: Mapping[str, StepView]) -> tuple[str, ...]:
    valid = valid_views(cells)
    notes = common_notes([view.explanation for view in (valid or cells).values()])
    invalid = len(cells) - len(valid)
    if not invalid:
        return notes
    used = "left out" if valid else "so causes are of invalid cells, and costs are not given"
    return (*notes, f"{invalid} of {counted(len(cells), 'cell')} invalid, {used}: {_first_reasons(cells)}")


def _first_reasons(cells: Mapping[str, StepView]) -> str:
    reasons = list(dict.fromkeys(reason for view in cells.values() for reason in view.invalid_reasons))
    return "; ".join(reasons[:REASONS_MAX]) + ("; ..." if len(reasons) > REASONS_MAX else "")


def _view(case: Case, layout: Sequence[ComponentFacts], *, invalid_reasons: tuple[str, ...]) -> StepView:
    budget = time_budget(case)
    explanation, components = _of_one_time(
        explain_case(case),
        {name: explain_component(case_of_volume) for name, case_of_volume in component_cases(case, layout)},
        unaccounted=unaccounted_share(case),
    )
    return StepView(
        explanation=explanation,
        per_transaction=per_transaction(case),
        queries=() if not step_kind(case.kind).has_statements else query_costs(case.grid),
        demand=demand_of(case),
        length_s=case.length_s,
        threads=case.threads,
        correlations={} if invalid_reasons else _correlations(case, explanation, components),
        interval_s=case.grid.width_s,
        time_budget=budget,
        pool=pool_of(case.grid),
        base_await_ms=case.base_await_ms,
        components=components,
        invalid_reasons=invalid_reasons,
    )


def _correlations(case: Case, explanation: Explanation, components: Mapping[str, Explanation]) -> CellCorrelations:
    """Return what moves with p95, and along with the metrics of each cause that the cell shows."""
    causes = [
        named_of_component(finding.cause, name)
        for name, each in {"": explanation, **components}.items()
        for finding in each.findings
    ]
    return cell_correlations(
        case.grid,
        LATENCY,
        is_closed=bool(case.threads) and case.rate is None,
        counterparts=counterparts(case.grid, LATENCY, causes),
    )


def _of_one_time(
    explanation: Explanation, components: Mapping[str, Explanation], *, unaccounted: float
) -> tuple[Explanation, dict[str, Explanation]]:
    """Return what a step showed on a layout's volumes, with shares that add up over all of them."""
    every = (explanation, *components.values())
    findings = with_shares_that_fit(*(each.findings for each in every), unaccounted=unaccounted)
    fitting = [replace(each, findings=of_each) for each, of_each in zip(every, findings, strict=True)]
    return fitting[0], dict(zip(components, fitting[1:], strict=True))


def _waits(loaded: LoadedRun, result: CellResult, volume: str, case: Case) -> CellSamples | None:
    """Return a step's latencies and awaits; None of a step without transactions. Raises RunUnreadable."""
    if not len(case.grid) or case.at(Client.tps) is None:
        return None
    edges = np.concatenate([[case.grid.t_s[0] - case.grid.width_s], case.grid.t_s])
    histograms = loaded.histograms(result.cell_id)
    key = histograms.key_of(case.name, "client")
    return samples_of(
        case,
        None if key is None else interval_latencies(histograms, key, edges),
        cell=result.cell_id,
        volume=volume,
        series=loaded.series(result.cell_id),
        modulation=step_modulation(result.steps, case),
    )
