"""A validation as text, Markdown and a page to sign."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from volbench.core.base.text import escape_controls, number
from volbench.core.records.goals.gate import ConditionRow
from volbench.core.records.validation.result import CheckName, ReplayClass, Replayed, ServerSide, Validation
from volbench.results.report.formats.gate import MARKS, condition_details, decisions_junit, escaped
from volbench.results.report.formats.signed_page import signed_page

DETAILS_SHOWN = 20


def validation_text(outcome: Validation) -> str:
    """Return the text for the terminal."""
    lines = [f"{MARKS[outcome.decision]}: {outcome.reason}", f"  {about(outcome)}"]
    for row in outcome.checks:
        lines.append(f"{MARKS[row.decision]:>9}  {row.check}: {row.text}")
        lines += [f"           {text}" for text in _truncated(row.details)]
    for condition in outcome.conditions:
        lines.append(f"{MARKS[condition.decision]:>9}  {condition_label(condition)}")
        lines += [f"           {text}" for text in condition_details(condition)]
    lines += [f"  note: {text}" for text in notes(outcome)]
    return escape_controls("\n".join(lines) + "\n")


def validation_markdown(outcome: Validation) -> str:
    """Return Markdown for a pull request; nothing from a server is markup."""
    lines = [f"## {MARKS[outcome.decision]}: {escaped(outcome.name)}", "", escaped(outcome.reason), ""]
    lines += [escaped(about(outcome)), "", "| decision | check | result |", "|---|---|---|"]
    for row in outcome.checks:
        details = "<br>".join(map(escaped, (row.text, *_truncated(row.details))))
        lines.append(f"| {MARKS[row.decision]} | {row.check} | {details} |")
    if outcome.conditions:
        lines += ["", "| decision | condition | evidence |", "|---|---|---|"]
    for condition in outcome.conditions:
        evidence = "<br>".join(map(escaped, condition_details(condition)))
        lines.append(f"| {MARKS[condition.decision]} | {escaped(condition_label(condition))} | {evidence} |")
    if outcome.replay is not None:
        lines += ["", f"| {' | '.join(REPLAY_HEADS)} |", "|---|" + "---:|" * (len(REPLAY_HEADS) - 1)]
        lines += [f"| {' | '.join(map(escaped, row))} |" for row in replay_rows(outcome.replay)]
    lines += ["", *(f"- {escaped(text)}" for text in notes(outcome))]
    lines += ["", "Statements sent to the source:", ""]
    lines += [f"- {times} x `{escaped(text)}`" for text, times in outcome.statements_sent_to_source.items()]
    return escape_controls("\n".join(lines) + "\n")


def validation_junit(outcome: Validation) -> str:
    """Return JUnit for a pipeline: each check and each condition is a case."""
    checks = [(row.check, row.decision, "\n".join((row.text, *row.details))) for row in outcome.checks]
    conditions = [
        (condition_label(row), row.decision, "\n".join(condition_details(row))) for row in outcome.conditions
    ]
    return decisions_junit("validate", outcome.name, [*checks, *conditions])


def validation_html(outcome: Validation) -> str:
    """Return a page without scripts, to be signed."""
    return signed_page(
        "validation.html.j2",
        outcome=outcome,
        marks=MARKS,
        about=about(outcome),
        notes=list(notes(outcome)),
        truncated=_truncated,
        replay_heads=REPLAY_HEADS,
        replay_rows=replay_rows(outcome.replay) if outcome.replay else [],
        label=condition_label,
        details=condition_details,
    )


REPLAY_HEADS = (
    "class",
    "statements",
    "errors",
    "log p50 ms",
    "log p95",
    "service p50",
    "service p95",
    "response p50",
    "response p95",
)


def _verdict(statement_class: ReplayClass) -> str:
    if statement_class.slower:
        return "slower: "
    return "may be slower: " if statement_class.undecided or statement_class.unproven else ""


def replay_rows(replay: Replayed) -> list[tuple[str, ...]]:
    """Return the classes with most time in the log; an unknown time is a dash."""
    return [
        (
            f"{_verdict(statement_class)}{statement_class.fingerprint[:120]}",
            str(statement_class.statements),
            str(statement_class.errors),
            *(
                number(value)
                for value in (
                    statement_class.logged_ms_p50,
                    statement_class.logged_ms_p95,
                    statement_class.service_ms_p50,
                    statement_class.service_ms_p95,
                    statement_class.response_ms_p50,
                    statement_class.response_ms_p95,
                )
            ),
        )
        for statement_class in replay.classes[:DETAILS_SHOWN]
    ]


def condition_label(row: ConditionRow) -> str:
    """Return the condition with its reason."""
    return row.check + (f" ({row.rationale})" if row.rationale else "")


def about(outcome: Validation) -> str:
    """Return which servers and schemas were compared, and when."""
    servers = " against ".join(map(_side, (outcome.candidate, outcome.source)))
    text = f"{servers}; schemas {', '.join(outcome.schemas)}{_runs(outcome)}"
    unchanged = "; the source was not written meanwhile" if outcome.source_changed is False else ""
    return f"{text}; {outcome.started_at} to {outcome.finished_at}{unchanged}"


def notes(outcome: Validation) -> Iterator[str]:
    """Yield what limits the decision besides the checks."""
    for run in outcome.runs:
        if run.emulated:
            yield (
                f"run {run.run_id} is a rehearsal: {', '.join(run.emulated)} emulated, so its conditions decide "
                "nothing about the real volume"
            )
    missing = [name for name in get_args(CheckName) if name not in {row.check for row in outcome.checks}]
    if missing:
        yield f"not checked, so not part of the decision: {', '.join(missing)}"
    if outcome.source_changed:
        yield "the source was written during the comparison"
    if outcome.source_changed is None:
        yield (
            "unknown: whether the source was written during the comparison (no binary log, or no privilege for it)"
        )
    if outcome.source.excess_privileges:
        yield (
            f"{outcome.source.user} has more privileges on the source than needed "
            f"({', '.join(outcome.source.excess_privileges)}); SELECT, SHOW VIEW, TRIGGER, EVENT and EXECUTE "
            "are enough"
        )


def _runs(outcome: Validation) -> str:
    return f"; runs {', '.join(run.run_id for run in outcome.runs)}" if outcome.runs else ""


def _side(side: ServerSide) -> str:
    return f"{side.flavor} {side.version} at {side.address}"


def _truncated(details: tuple[str, ...]) -> list[str]:
    more = len(details) - DETAILS_SHOWN
    return [*details[:DETAILS_SHOWN], *([f"and {more} more, in validation.json"] if more > 0 else [])]
