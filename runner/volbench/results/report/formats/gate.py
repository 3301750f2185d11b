"""A policy's decision as text, Markdown for a pull request, JUnit for a pipeline, and a page to sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from volbench.core.base.text import escape_controls
from volbench.core.records.goals.gate import ConditionRow, Decision, Gate
from volbench.results.report.formats.junit import clean
from volbench.results.report.formats.signed_page import signed_page
from volbench.results.report.terms import terms_of
from volbench.results.report.wording import parameter_text

GateFormat = Literal["text", "md", "json", "junit", "html"]
MARKS = {"go": "GO", "no-go": "NO-GO", "undecided": "UNDECIDED"}


def render_gate(gate: Gate, format_name: GateFormat) -> str:
    """Return the decision in a format, ending with a line feed."""
    match format_name:
        case "json":
            return gate.model_dump_json(indent=1, by_alias=True) + "\n"
        case "text":
            return _text(gate)
        case "md":
            return _markdown(gate)
        case "junit":
            return _junit(gate)
        case "html":
            return _html(gate)


def emulation_notice(gate: Gate) -> str:
    """Return the note on emulated volumes; empty without any."""
    if not gate.emulated:
        return ""
    return f"a rehearsal: {', '.join(gate.emulated)} emulated, so it decides nothing about the real volume"


def _text(gate: Gate) -> str:
    lines = [f"{MARKS[gate.decision]}: {gate.reason}", f"  {_about(gate)}"]
    lines += [f"  {emulation_notice(gate)}"] if gate.emulated else []
    for row in gate.conditions:
        lines.append(f"{MARKS[row.decision]:>9}  {row.check}" + (f"  ({row.rationale})" if row.rationale else ""))
        lines += [f"           {text}" for text in condition_details(row)]
    lines += [f"  {term}" for term in terms_of(lines)]
    return escape_controls("\n".join(lines) + "\n")


def _about(gate: Gate) -> str:
    candidates = ", ".join(gate.candidates)
    return (
        f"policy {gate.policy}; {candidates} against {gate.current}; run {gate.run_id}; "
        f"confidence {gate.confidence:.3g}"
    )


def condition_details(row: ConditionRow) -> list[str]:
    """Return the evidence of a condition: volumes and steps with the same evidence share a line."""
    variants: dict[str, set[str]] = {}
    for group in row.groups:
        variants.setdefault(group.step, set()).add(parameter_text(group.parameters))
    locations: dict[str, dict[str, list[str]]] = {}
    for group in row.groups:
        more = f"; about {group.more_cells} more valid cells would decide" if group.more_cells else ""
        parameters = parameter_text(group.parameters) if len(variants[group.step]) > 1 else ""
        steps = locations.setdefault(f"{group.text}{more}", {}).setdefault(group.volume, [])
        steps.append(f"{group.step} {parameters}".strip())
    return [f"{_location_text(volumes)}: {text}" for text, volumes in locations.items()] or [row.reason]


def _location_text(volumes: Mapping[str, Sequence[str]]) -> str:
    """Return `gp2 (shop, night); gp3 (shop)`; a condition on whole volumes has no steps."""
    steps = {volume: ", ".join(filter(None, names)) for volume, names in volumes.items()}
    return "; ".join(f"{volume} ({text})" if text else volume for volume, text in steps.items())


def _markdown(gate: Gate) -> str:
    lines = [
        f"## {MARKS[gate.decision]}: {escaped(gate.policy)}",
        "",
        escaped(gate.reason),
        "",
        escaped(_about(gate)),
        "",
    ]
    lines += [f"**{escaped(emulation_notice(gate))}**", ""] if gate.emulated else []
    lines += ["| decision | condition | evidence |", "|---|---|---|"]
    for row in gate.conditions:
        evidence = "<br>".join(escaped(text) for text in condition_details(row))
        reason = f" ({escaped(row.rationale)})" if row.rationale else ""
        lines.append(f"| {MARKS[row.decision]} | {escaped(row.check)}{reason} | {evidence} |")
    lines += [text for term in terms_of(lines) for text in ("", term)]
    return escape_controls("\n".join(lines) + "\n")


def escaped(text: str) -> str:
    """Return text that stays in its table cell and is never markup."""
    for character in ("&", "<", ">"):
        text = text.replace(character, {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[character])
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("`", "'").split())


def _junit(gate: Gate) -> str:
    rows = [(row.check, row.decision, "\n".join(condition_details(row))) for row in gate.conditions]
    return decisions_junit("gate", gate.policy, rows, reason=gate.reason)


def decisions_junit(command: str, name: str, rows: Sequence[tuple[str, Decision, str]], *, reason: str = "") -> str:
    """Return decisions as test cases: a no-go is a failure, an undecided condition is skipped.

    Args:
        command: for the names of suite and classes.
        name: of the policy or plan.
        rows: (condition, decision, evidence).
        reason: of all of them together.
    """
    counts = {kind: str(sum(row[1] == decision for row in rows)) for kind, decision in _JUNIT_COUNTS.items()}
    root = Element("testsuites", name=clean(f"volbench {command} {name}"))
    suite = SubElement(root, "testsuite", {"name": clean(name), "tests": str(len(rows)), "errors": "0", **counts})
    for check, decision, evidence in rows:
        case = SubElement(suite, "testcase", classname=clean(f"{command}.{name}"), name=clean(check))
        text = clean(evidence)
        match decision:
            case "no-go":
                SubElement(case, "failure", type="no-go", message=text)
            case "undecided":
                SubElement(case, "skipped", message=text)
            case "go":
                SubElement(case, "system-out").text = text
    if reason:
        SubElement(suite, "system-out").text = clean(reason)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_JUNIT_COUNTS: dict[str, Decision] = {"failures": "no-go", "skipped": "undecided"}


def _html(gate: Gate) -> str:
    return signed_page(
        "gate.html.j2",
        gate=gate,
        marks=MARKS,
        about=_about(gate),
        rehearsal=emulation_notice(gate),
        details=condition_details,
        terms=terms_of(
            (gate.reason, *(text for row in gate.conditions for text in (row.check, *condition_details(row))))
        ),
    )
