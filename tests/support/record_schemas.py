"""The JSON Schemas of results/schema, generated from the models by `make docs`."""

from __future__ import annotations

import json
from typing import Any

from volbench.core.records.base import Record
from volbench.core.records.cell import CellResult, CellSpec
from volbench.core.records.goals.gate import Gate
from volbench.core.records.pack import PackRecord
from volbench.core.records.report import Report
from volbench.core.records.run import JournalEvent, RunRecord

MODELS: dict[str, type[Record]] = {
    "run": RunRecord,
    "journal": JournalEvent,
    "cell": CellSpec,
    "result": CellResult,
    "report": Report,
    "gate": Gate,
    "pack": PackRecord,
}
"""Name of the schema -> model of the file; `journal` is one line of journal.jsonl."""
VERSIONS = {
    name: model.model_fields["schema_"].default for name, model in MODELS.items() if "schema_" in model.model_fields
}
"""Name of the schema -> today's version."""


def schema_text(name: str) -> str:
    """Return one schema as text. Its keys are those of files, so aliases such as `schema`."""
    # Keys with a default are not required, since older files do not have newer keys.
    schema = MODELS[name].model_json_schema(mode="validation")
    if name in {"report", "gate"}:
        _allow_more_keys(schema)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _allow_more_keys(schema: dict[str, Any]) -> None:
    """Allow unknown keys: later versions may add keys to report.json, and readers must accept them."""
    for model in (schema, *schema.get("$defs", {}).values()):
        model.pop("additionalProperties", None)
