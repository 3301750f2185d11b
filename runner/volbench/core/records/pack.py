"""pack.json: what a result pack holds. A pack is a run in one file, for others to put next to theirs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from volbench.core.records.base import FileName, Record

PACK_SCHEMA = 1
PACK_FILE = "pack.json"
PACK_SUFFIX = ".volbench.zip"
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+/-]{0,59}$")]
PackedName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(run\.json|journal\.jsonl|cells/[A-Za-z0-9][A-Za-z0-9_.-]{0,199}/"
        r"(cell\.json|result\.json|series\.parquet|histograms\.parquet))$"
    ),
]


class PackedFile(Record):
    """One file of the run, as it lies in the pack."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class PackRecord(Record):
    """pack.json, the first file of a pack."""

    schema_: int = Field(default=PACK_SCHEMA, alias="schema")
    volbench_version: str = Field(max_length=40, description="That made the pack; the run has its own.")
    run_id: FileName
    region: Label | None = Field(default=None, description="Of the cloud, or another place; null: not stated.")
    storage_classes: dict[str, Label] = Field(
        default_factory=dict, description="Volume of the run -> class of storage that it belongs to."
    )
    files: dict[PackedName, PackedFile] = Field(description="Every other file of the pack.")
