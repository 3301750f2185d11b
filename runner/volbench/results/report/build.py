"""Builds report.json from a run's directory, at any time and from an unfinished run too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.goals.pricing import StorageClassRow
from volbench.core.records.report import (
    CellRow,
    DurabilityRow,
    HeadlineFigure,
    Report,
    ServerRow,
    Summary,
    TimeDifferenceRow,
    VolumeRow,
)
from volbench.core.records.run import RunRecord, is_over_budget, skipped_cells
from volbench.results.compare.comparison_summary import PairSummary, summarise
from volbench.results.compare.figures import figure_rows
from volbench.results.credits.prices import load_prices
from volbench.results.explain.accounts.what_if import OtherVolume, known_volumes
from volbench.results.explain.run import RunExplanation, explain_run
from volbench.results.explain.tables import association_rows, query_rows, transaction_rows, what_if_rows
from volbench.results.report.rows.backup import backup_rows
from volbench.results.report.rows.cells import (
    cell_rows,
    data_row,
    failure_rows,
    finished_at,
    server_row,
    timing,
    used_within_bounds,
    volume_rows,
)
from volbench.results.report.rows.differences import differing_settings
from volbench.results.report.rows.durability import durability_rows
from volbench.results.report.rows.effects import effect_rows, sweep_row
from volbench.results.report.rows.forecast import forecast_rows
from volbench.results.report.rows.load_limit import ladder_sentence, load_limit_sentences
from volbench.results.report.rows.moments import moment_rows
from volbench.results.report.rows.nodes import declared_placements, hosts_by_volume, node_caveats
from volbench.results.report.rows.pools import pool_sentences
from volbench.results.report.rows.prediction import missed_sentences, prediction_rows
from volbench.results.report.rows.reproduce import IncompleteRun, reproduce_lines
from volbench.results.report.rows.response import ResponseTables, response_sentences, response_tables
from volbench.results.report.rows.response_check import disagreement_sentences
from volbench.results.report.rows.saturation import curve_rows
from volbench.results.report.rows.sharing import sharing_rows, sharing_sentences
from volbench.results.report.rows.storage_classes import storage_class_rows, transaction_traffic
from volbench.results.report.rows.time_budget import (
    difference_sentences,
    time_budget_rows,
    time_difference_rows,
    volume_budgets,
)
from volbench.results.report.rows.verdict.asked import class_caveats
from volbench.results.report.rows.verdict.caveats import OVER_BUDGET, caveats, doubts, server_caveats
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.rows.verdict.headline import headline_of
from volbench.results.report.rows.verdict.pairs import compared_volumes, run_comparisons
from volbench.results.report.rows.verdict.purge import purge_caveats
from volbench.results.report.rows.verdict.settings import variant_names, with_names
from volbench.results.report.rows.verdict.summary import Accounts, summarise_run
from volbench.results.report.rows.verdict.volumes import unavailable_volumes
from volbench.results.stats.sequential import ErrorLevel
from volbench.results.store.loaded_run import LoadedRun, load_run
from volbench.results.store.run_directory import RunDirectory


def build_report(directory: RunDirectory, *, what_if: Sequence[OtherVolume] = ()) -> Report:
    """Return the report of a run's directory, see `report_of`. Raises RunUnreadable."""
    return report_of(load_run(directory), what_if=what_if)


def report_of(loaded: LoadedRun, *, what_if: Sequence[OtherVolume] = ()) -> Report:
    """Return the report of a run as far as it is complete.

    Args:
        loaded: the run.
        what_if: other volumes to predict the run's loads on.

    Raises RunUnreadable naming a table that is damaged or was not written by volbench.
    """
    run, results, events = loaded.run, loaded.results, loaded.events
    every = [volume.name for volume in run.volumes]
    volume_of = _volume_of(run)
    names = compared_volumes(run, results, unavailable_volumes(events, volume_of))
    cells, volumes, server = cell_rows(run, results), volume_rows(run, results), server_row(results)
    comparisons = run_comparisons(run, results, cells, names)
    cells = used_within_bounds(cells, comparisons)
    explained = explain_run(loaded)
    effects = effect_rows(run, cells)
    budgets = volume_budgets(explained, cells, every)
    spec = run.suite.comparison
    level = ErrorLevel(alpha=1 - spec.confidence, sequential=spec.until == "decided")
    differences = time_difference_rows(budgets, every[0], level) if every else ()
    responses = response_tables(explained, every, {cell.step for cell in cells if cell.parameters.get("rate")})
    sweep = sweep_row(run, effects, explained.findings)
    pairs = summarise(comparisons)
    durability = durability_rows(results, cells, volume_of, every)
    sharing = sharing_rows(run, cells, every)
    rows = comparison_rows(comparisons)
    forecasts, predictions = forecast_rows(loaded, cells), prediction_rows(run.suite.forecast, cells, rows)
    settings = variant_names(effects, cells)
    missed = tuple(missed_sentences(with_names(predictions, settings), forecasts))
    warnings = _warnings(loaded, cells, volumes, server, pairs, names, explained, missed, settings)
    about = run.suite.comparison.about
    progress = _progress(loaded)
    compared = [volume for volume in volumes if volume.name in names]
    headline = headline_of(
        pairs,
        cells,
        names,
        explained.findings,
        effects=effects,
        about=about,
        durability=durability,
        doubts=tuple(doubts(run, compared, compared=bool(pairs))),
        complete=progress is None,
    )
    accounts = _accounts(explained, every, differences, responses, headline.figure)
    conclusions = sweep.conclusions if sweep else sharing_sentences(sharing)
    summary = _summary(loaded, explained, pairs, cells, names, warnings, conclusions, accounts)
    return Report(
        run_id=run.run_id,
        suite=run.suite.name,
        started_at=run.started_at,
        finished_at=finished_at(events),
        complete=progress is None and finished_at(events) is not None,
        volbench_version=run.volbench_version,
        summary=summary.model_copy(
            update={
                "headline": headline.text,
                "notes": headline.sentences,
                "figure": headline.figure,
                "sharing": tuple(text for text in sharing_sentences(sharing) if text != summary.sentence),
            }
        ),
        server=server,
        data=data_row(events, server),
        host=run.host.model_dump(mode="json", exclude_none=True),
        timing=timing(run, events, cells),
        volumes=volumes,
        cells=cells,
        comparisons=rows,
        until_decided=level.sequential,
        figures=figure_rows(cells),
        findings=explained.findings,
        refuted=explained.refuted,
        moments=moment_rows(explained, results, volume_of),
        forecasts=forecasts,
        predictions=predictions,
        curves=curve_rows(cells, every, explained.findings, confidence=run.suite.comparison.confidence),
        sweep=sweep,
        effects=effects,
        transactions=transaction_rows(explained, every),
        queries=query_rows(explained, every),
        time_budgets=time_budget_rows(budgets),
        time_differences=differences,
        responses=responses.rows,
        undetermined_responses=responses.undetermined,
        response_points=responses.points,
        associations=association_rows(explained, every),
        what_if=what_if_rows(explained, every, what_if, known_volumes(run.volumes)),
        backups=backup_rows(run.suite, results, volume_of, every),
        durability=durability,
        sharing=sharing,
        storage_classes=_storage_classes(run, cells, durability, explained),
        failures=failure_rows(loaded),
        differing_settings=differing_settings(results, volume_of),
        reproduce=reproduce_lines(
            run.command,
            f"seed {run.suite.seed}, volbench {run.volbench_version}",
            effects if run.suite.sweep is not None else rows,
            progress,
        ),
    )


def _volume_of(run: RunRecord) -> dict[str, str]:
    return {cell.cell_id: cell.volume for cell in run.cells}


def _done(loaded: LoadedRun) -> int:
    return sum(result.status == "done" for result in loaded.results)


def _progress(loaded: LoadedRun) -> IncompleteRun | None:
    """Return what is missing; None of a run that has every cell that it needed."""
    done, planned = _done(loaded), len(loaded.run.cells)
    if done >= planned - len(skipped_cells(loaded.events)):
        return None
    return IncompleteRun(run_id=loaded.run.run_id, done=done, planned=planned)


def _warnings(
    loaded: LoadedRun,
    cells: Sequence[CellRow],
    volumes: Sequence[VolumeRow],
    server: ServerRow | None,
    pairs: Sequence[PairSummary],
    names: Sequence[str],
    explained: RunExplanation,
    missed: Sequence[str],
    settings: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the caveats, the gravest first: a budget that ended the run, volumes that could not be used, nodes."""
    run, events, volume_of = loaded.run, loaded.events, _volume_of(loaded.run)
    over_budget = is_over_budget(events)
    hosts = hosts_by_volume(loaded.results, volume_of)
    return caveats(
        run,
        [volume for volume in volumes if volume.name in names],  # a variant is emulated as its volume is
        cells,
        server,
        pairs,
        with_result=_done(loaded),
        events=events,
        settings=settings,
        first=(
            *((OVER_BUDGET,) if over_budget else ()),
            *unavailable_volumes(events, volume_of).values(),
            *missed,
            *server_caveats(run, loaded.results),
            *purge_caveats(explained),
            *class_caveats(_facts(volumes, names), explained.findings),
            *map(ladder_sentence, run.ladders),
            *load_limit_sentences(run, cells, explained.findings, names),
            *node_caveats({name: hosts[name] for name in names if name in hosts}, declared_placements(run)),
        ),
    )


def _facts(volumes: Sequence[VolumeRow], names: Sequence[str]) -> dict[str, VolumeFacts]:
    chosen = [volume for volume in volumes if volume.facts and volume.name in names]
    return {volume.name: VolumeFacts.model_validate(volume.facts) for volume in chosen}


def _accounts(
    explained: RunExplanation,
    volumes: Sequence[str],
    differences: Sequence[TimeDifferenceRow],
    responses: ResponseTables,
    figure: HeadlineFigure | None,
) -> Accounts:
    step = figure.step if figure else ""
    return Accounts(
        figure=figure,
        box=(
            *response_sentences(responses, of_step=step),
            *difference_sentences(differences, of_step=step),
            *pool_sentences(explained, volumes, of_step=step),
        ),
        time_difference=(
            *difference_sentences(differences, first=step),
            *disagreement_sentences(explained, differences),
            *pool_sentences(explained, volumes),
        ),
        response=response_sentences(responses),
    )


def _summary(
    loaded: LoadedRun,
    explained: RunExplanation,
    pairs: Sequence[PairSummary],
    cells: Sequence[CellRow],
    names: Sequence[str],
    warnings: tuple[str, ...],
    conclusions: Sequence[str],
    accounts: Accounts,
) -> Summary:
    run = loaded.run
    return summarise_run(
        pairs,
        cells,
        names,
        warnings,
        low_power=run.suite.underpowered or any(pair.low_power for pair in pairs),
        conclusions=conclusions,
        accounts=accounts,
        findings=explained.findings,
    )


def _storage_classes(
    run: RunRecord,
    cells: Sequence[CellRow],
    durability: Sequence[DurabilityRow],
    explained: RunExplanation,
) -> tuple[StorageClassRow, ...]:
    """Return the priced volumes; a suite that asks for no prices needs no price list."""
    spec = run.suite.pricing
    if spec is None:
        return ()
    return storage_class_rows(spec, run.volumes, cells, durability, transaction_traffic(explained), load_prices())
