"""The statements of a live server during some seconds, by class."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.base.parse import NUMBER_MAX, WHOLE_MAX
from volbench.core.records.base import Moment, Record


class CapturedClass(Record):
    """Statements of one shape, in the time of the capture."""

    schema_name: str
    digest_text: str = Field(description="The server's own, without literals.")
    sample: str = Field(default="", description="One statement with its literals; empty when masked or not kept.")
    statements: int = Field(ge=1, le=WHOLE_MAX)
    total_s: float = Field(ge=0, le=NUMBER_MAX)
    errors: int = Field(ge=0, le=WHOLE_MAX)
    rows_sent: int = Field(ge=0, le=WHOLE_MAX)
    rows_examined: int = Field(ge=0, le=WHOLE_MAX)


class Capture(Record):
    """A file of `volbench capture`."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    kind: Literal["capture"] = "capture"
    flavor: str
    version: str
    started_at: Moment
    seconds: float = Field(gt=0, le=NUMBER_MAX)
    statements_per_s: float = Field(ge=0, le=NUMBER_MAX)
    threads_running_max: int | None = Field(description="Sampled once a second, this session left out.")
    unclassified: int = Field(description="Statements beyond the server's table of digests.")
    masked: bool
    files: dict[str, int] | None = Field(
        default=None, description="Bytes that fill each tablespace; null where PROCESS is missing."
    )
    binlog_bytes: int | None = Field(
        default=None, description="Of all binary logs, 0 without any; null where REPLICATION CLIENT is missing."
    )
    classes: tuple[CapturedClass, ...]
