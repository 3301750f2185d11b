"""A suite for the search of a capacity: one load of another suite at rising rates, on the same data and server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from volbench.errors import UsageError
from volbench.suite.document import parse_document, set_value
from volbench.suite.scale import scaled

_KEPT = ("schema", "engine", "dataset", "seed", "sampling", "limits", "comparison", "volumes")


def ladder_suite(
    text: str, *, name: str, step: str, rates: Sequence[int], repeats: int, settings: Iterable[str] = ()
) -> str:
    """The text of the suite.

    Args:
        text: the other suite; settings: `--set` for it. name: of its file, for messages.
        step: the load, by name; empty: its first oltp step.
        rates: transactions a second, rising, so that what breaks comes last in each cell.

    Raises UsageError when there is no such load.
    """
    settings = list(settings)
    document = scaled(parse_document(text, name=name), settings)
    for assignment in settings:
        document = set_value(document, assignment)
    load = _load(document.data.get("steps"), step, name)
    steps = [
        {**load, "name": f"rate-{rate}", "rate": rate, "threads": _most(load.get("threads", 64))} for rate in rates
    ]
    kept = {key: document.data[key] for key in _KEPT if key in document.data}
    base = str(document.data.get("name", "suite"))[:30]
    found = {
        **kept, "name": f"{base}-capacity", "description": f"Rising rates of {load.get('name') or 'oltp'}",
        "steps": steps, "repeats": repeats, "low_power": repeats < 4,
    }  # fmt: skip
    out = StringIO()
    YAML(typ="safe", pure=True).dump(found, out)
    return f"# Written by `volbench capacity` from {name}.\n{out.getvalue()}"


def _load(steps: Any, wanted: str, name: str) -> dict[str, Any]:
    loads = [one for one in steps if isinstance(one, dict) and one.get("kind", "oltp") == "oltp"] if steps else []
    for one in loads:
        if wanted in {"", one.get("name")}:
            return {key: value for key, value in one.items() if key != "beside"}
    raise UsageError(
        f"no oltp step is called {wanted!r}" if wanted else "the suite has no oltp step", where=name,
        evidence=f"it has: {', '.join(str(one.get('name')) for one in loads) or 'none'}",
        next_step="name one with --step, or take suites/oltp.yaml",
    )  # fmt: skip


def _most(threads: Any) -> int:
    """An open loop needs clients to spare: those of a closed one would bound it themselves."""
    given = threads if isinstance(threads, list) else [threads]
    return max(64, *(int(one) for one in given))
