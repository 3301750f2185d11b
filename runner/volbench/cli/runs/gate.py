"""`volbench gate`: go, no-go or undecided by a policy, with an exit code for a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.core.suite.policy import load_policy
from volbench.results.gate.gate import EXIT_CODES, gate_report
from volbench.results.report.build import build_report
from volbench.results.report.formats.gate import GateFormat, render_gate
from volbench.results.store.run_directory import RunDirectory


def gate(
    path: options.RunPath,
    policy: Annotated[Path, typer.Option("--policy", help="The policy: suites/policies/README.md.")],
    format: Annotated[
        GateFormat, typer.Option("--format", help="text, md, json, junit, or html (a page to sign).")
    ] = "text",
    json: options.Json = False,
) -> None:
    """Decide by a policy: exit code 0 is go, 1 no-go, 6 undecided."""
    loaded = load_policy(policy)
    decision = gate_report(
        build_report(RunDirectory.open(path)),
        loaded.policy,
        policy_text=loaded.text,
        origins=loaded.origins,
        where=loaded.name,
    )
    console.show_text(render_gate(decision, "json" if json else format))
    raise typer.Exit(EXIT_CODES[decision.decision])
