"""The rule by which every check decides: go needs evidence, and only what was compared is evidence."""

from __future__ import annotations

from collections.abc import Collection

from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.result import CheckName, CheckRow


def decide_check(
    check: CheckName,
    *,
    compared: int,
    text: str,
    faults: Collection[str] = (),
    doubts: Collection[str] = (),
    notes: Collection[str] = (),
    nothing: str = "nothing was compared",
) -> CheckRow:
    """Return the row of a check: no-go with a fault, undecided with a doubt or without a comparison, else go.

    Args:
        check: its name.
        compared: how many things both sides gave an answer about.
        text: what came out, where something was compared.
        faults: differences that decide.
        doubts: what was not compared and should have been: refused, cut off, failed on both sides.
        notes: what decides nothing.
        nothing: why nothing was compared.
    """
    decision: Decision = "no-go" if faults else "undecided" if doubts or compared <= 0 else "go"
    if compared <= 0 and not faults:
        text = nothing
    elif decision == "undecided":
        text = f"{text}; not decided: {next(iter(doubts))}"
    details = tuple(_printable(detail) for detail in (*faults, *doubts, *notes) if detail != text)
    return CheckRow(check=check, decision=decision, text=_printable(text), details=details)


def undecided(check: CheckName, text: str, *details: str) -> CheckRow:
    """Return the row of a check that could not be made."""
    return CheckRow(
        check=check, decision="undecided", text=_printable(text), details=tuple(map(_printable, details))
    )


def _printable(text: str) -> str:
    """Return a text that a file can hold: bytes of a server that are no UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
