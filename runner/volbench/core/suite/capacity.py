"""A suite for a capacity search: one load of another suite at rising rates, on the same data and server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from volbench.core.suite.load import suite_document
from volbench.errors import UsageError

_COPIED_KEYS = ("schema", "engine", "dataset", "seed", "sampling", "limits", "comparison", "volumes")
_LEFT_OUT = ("concurrent", "threads_max")
"""Keys of a load that a load at a rate cannot have."""


def capacity_suite(
    text: str, *, name: str, step: str, rates: Sequence[int], repeats: int, settings: Iterable[str] = ()
) -> str:
    """Return the text of the suite.

    Args:
        text: the other suite; settings: `--set` for it. name: of its file, for messages.
        step: the load, by name; empty: its first oltp step.
        rates: transactions per second, rising, so that overload comes last in each cell.

    Raises UsageError if there is no such load.
    """
    document = suite_document(text, name=name, settings=settings)
    load = _load(document.data.get("steps"), step, name)
    steps = [
        {**load, "name": f"rate-{rate}", "rate": rate, "threads": _client_threads(load.get("threads", 64))}
        for rate in rates
    ]
    copied = {key: document.data[key] for key in _COPIED_KEYS if key in document.data}
    base = str(document.data.get("name", "suite"))[:30]
    content = {
        **copied,
        "name": f"{base}-capacity",
        "description": f"Rising rates of {load.get('name') or 'oltp'}",
        "steps": steps,
        "repeats": repeats,
        "underpowered": repeats < 4,
    }
    out = StringIO()
    YAML(typ="safe", pure=True).dump(content, out)
    return f"# Written by `volbench capacity` from {name}.\n{out.getvalue()}"


def _load(steps: Any, step_name: str, name: str) -> dict[str, Any]:
    loads = (
        [step for step in steps if isinstance(step, dict) and step.get("kind", "oltp") == "oltp"] if steps else []
    )
    for step in loads:
        if step_name in {"", step.get("name")}:
            return {key: value for key, value in step.items() if key not in _LEFT_OUT}
    raise UsageError(
        f"the suite has no oltp step {step_name!r}" if step_name else "the suite has no oltp step",
        where=name,
        evidence=f"it has: {', '.join(str(step.get('name')) for step in loads) or 'none'}",
        next_step="name one with --step, or take suites/oltp.yaml",
    )


def _client_threads(threads: Any) -> int:
    """Return enough clients for an open loop, so that they do not limit the rate."""
    counts = threads if isinstance(threads, list) else [threads]
    return max(64, *(int(count) for count in counts))
