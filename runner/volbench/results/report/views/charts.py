"""The interactive timelines: Bokeh figures that share one time axis and one cursor.

Figures have no data: the page's script fills them from the timelines of the chosen step and repeat, and colours
them by the page's style, so that dark mode and print follow the reader's choice. So they are the same in every
report: `page/charts.json` has each panel as Bokeh serialises it, with its lines for one volume, and Bokeh itself is
not needed. `make docs` writes that file and the JavaScript beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from volbench.results.report.views.panels import PANELS, Panel

LIBRARY_FILE = Path(__file__).parents[1] / "page" / "bokeh.min.js"
CHARTS_FILE = Path(__file__).parents[1] / "page" / "charts.json"
VOLUME = "@volume@"
"""Stands for the volume's number in the names and ids of a line."""
SHARED = ("time", "cursor")
"""Ids of the objects that all figures share: the first one has them whole, the others refer to them."""


@dataclass(frozen=True, kw_only=True)
class Charts:
    """The parts of the page: Bokeh's JavaScript, the script that makes the figures, one div a panel."""

    library: str
    script: str
    panels: tuple[tuple[Panel, str], ...]


def panels_with_data(lines: Iterable[str]) -> list[Panel]:
    """Return the panels for which a cell has a line (`panel.line`)."""
    present = {line.split(".", 1)[0] for line in lines}
    return [panel for panel in PANELS if panel.key in present]


def charts(panels: Sequence[Panel], volumes: int) -> Charts:
    """Return figures of the panels for a number of volumes."""
    if not panels:
        return Charts(library="", script="", panels=())
    return Charts(
        library=LIBRARY_FILE.read_text(encoding="utf-8"),
        script=_script([panel.key for panel in panels], volumes),
        panels=tuple(
            (panel, f'<div id="{_element(panel.key)}" style="display: contents;"></div>') for panel in panels
        ),
    )


def _script(keys: Sequence[str], volumes: int) -> str:
    stored = _stored()
    roots = [_figure(stored["panels"][key], volumes, is_first=number == 0) for number, key in enumerate(keys)]
    documents = {"charts": {"version": stored["bokeh"], "title": "volbench", "roots": roots}}
    ids = [root["id"] for root in roots]
    elements = {root["id"]: _element(key) for root, key in zip(roots, keys, strict=True)}
    items = [{"docid": "charts", "roots": elements, "root_ids": ids}]
    arguments = (json.dumps(value, separators=(",", ":")).replace("<", "\\u003c") for value in (documents, items))
    return f"Bokeh.safely(() => Bokeh.embed.embed_items({', '.join(arguments)}));"


@cache
def _stored() -> Mapping[str, Any]:
    stored: Mapping[str, Any] = json.loads(CHARTS_FILE.read_text(encoding="utf-8"))
    return stored


def _element(key: str) -> str:
    return f"chart-{key}"


def _figure(panel: Mapping[str, Any], volumes: int, *, is_first: bool) -> dict[str, Any]:
    """Return one figure as Bokeh's document has it, with its lines for each volume."""
    root: dict[str, Any] = panel["figure"] if is_first else _with_references(panel["figure"])
    lines = json.dumps(panel["lines"])
    attributes = {**root["attributes"]}
    attributes["renderers"] = [*attributes["renderers"], *_of_volumes(lines, volumes)]
    return {**root, "attributes": attributes}


def _of_volumes(lines: str, volumes: int) -> Iterator[Any]:
    for volume in range(volumes):
        yield from json.loads(lines.replace(VOLUME, str(volume)))


def _with_references(value: Any) -> Any:
    """Return the value with the shared objects as references."""
    if isinstance(value, dict):
        if value.get("id") in SHARED:
            return {"id": value["id"]}
        return {name: _with_references(entry) for name, entry in value.items()}
    return [_with_references(entry) for entry in value] if isinstance(value, list) else value
