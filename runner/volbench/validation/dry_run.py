"""The statements that a validation would send to the source, without connecting and so without table names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.core.base.text import counted
from volbench.core.records.validation.plan import ValidationPlan
from volbench.validation.catalog.accounts import PLUGINS, login_statements
from volbench.validation.catalog.grants import ROLES, grant_statements
from volbench.validation.catalog.inventory import OBJECT_KINDS, SCHEMAS, TIME_ZONES, inventory_statement
from volbench.validation.data.chunk_sums import BOUNDS
from volbench.validation.data.chunks import bound_query, size_query
from volbench.validation.data.replicas import REPLICA_STATUS, checksum_statements
from volbench.validation.data.row_sql import chunk_query, row_text
from volbench.validation.data.table import Column, ComparedTable
from volbench.validation.data.throttle import SNAPSHOT_S_MAX, THREADS_RUNNING
from volbench.validation.forecast.move import bytes_statement
from volbench.validation.queries.pt_upgrade import ENCRYPTED, OWN_STATEMENTS
from volbench.validation.source.rights import GRANTS
from volbench.validation.source.server import (
    CONNECTING,
    LOG_POSITIONS,
    PRIVILEGES,
    SAME_SERVER,
    SERVER_IDS,
    SESSION,
    SESSION_IF_KNOWN,
    SNAPSHOT,
    STARTED,
    VERSION,
)
from volbench.validation.source.settings import EXPLICITLY_SET, VARIABLES

_KEY = Column(name="KEY", type="int")
_TABLE = ComparedTable(schema="SCHEMA", name="TABLE", columns=(Column(name="COLUMN", type="int"),), key=("KEY",))


def planned_statements(plan: ValidationPlan) -> Iterator[str]:
    """Yield the statements in order; SCHEMA, TABLE, COLUMN and KEY stand for the source's names."""
    yield from (*CONNECTING, *SESSION, *SESSION_IF_KNOWN)
    yield SNAPSHOT
    if not plan.source.allow_privileged:
        yield from (PRIVILEGES, GRANTS)
    yield "  -- or: ".join(LOG_POSITIONS) + "  -- before and after"
    yield SCHEMAS
    yield from (SAME_SERVER, "  -- or: ".join(SERVER_IDS), *STARTED)
    yield VERSION
    yield PRIVILEGES
    yield GRANTS
    schemas = plan.schemas or ("SCHEMA",)
    for kind in OBJECT_KINDS:  # for MySQL; some columns have other names in MariaDB
        yield inventory_statement(kind, schemas)
    yield TIME_ZONES
    yield from (*grant_statements(schemas), "  -- or: ".join(ROLES))
    yield from ("  -- or: ".join(login_statements("SALT")), PLUGINS)
    yield from _asked_for(plan, schemas)
    if plan.queries is not None:
        origin = plan.queries.slow_log or plan.queries.capture
        yield "USE `SCHEMA`"
        yield f"-- reading queries of {origin}, and EXPLAIN FORMAT=JSON of each"
        if plan.queries.pt_upgrade:
            yield ENCRYPTED
            yield from (f"{statement}  -- by pt-upgrade" for statement in OWN_STATEMENTS)
    if plan.replay is not None and plan.candidate.disposable:
        yield f"{SAME_SERVER}  -- a replay that writes is refused on the source itself"


def _asked_for(plan: ValidationPlan, schemas: Sequence[str]) -> Iterator[str]:
    """Yield the statements of the plan's keys, except queries."""
    if plan.data:
        sessions = counted(plan.checksum_connections, "further session")
        yield f"{BOUNDS[0]}  -- or: {BOUNDS[1]}  -- on {sessions}, which read the chunks"
        yield f"{THREADS_RUNNING}  -- every second, and:"
        yield "  -- or: ".join(REPLICA_STATUS)
        yield f"{SNAPSHOT}  -- every {SNAPSHOT_S_MAX:g} s"
        yield f"{size_query(_TABLE)}  -- of a table without a key"
        yield f"{bound_query(_TABLE, (_KEY,), ('LAST',), 2)}  -- the end of each chunk"
        yield f"{chunk_query(_TABLE, '`KEY` > LAST AND `KEY` <= NEXT')}  -- each chunk"
        yield f"SELECT `KEY`, SHA2({row_text(_TABLE)}, 256) FROM {_TABLE.quoted}  -- of a chunk that differs"
    if plan.replica is not None and plan.replica.on == "source":
        for choice in (REPLICA_STATUS, checksum_statements(plan.replica.table, schemas)):
            yield "  -- or: ".join(choice)
    if plan.move is not None:
        yield bytes_statement(schemas)
    if plan.settings is not None or plan.move is not None:
        yield VARIABLES
    if plan.settings is not None:
        yield f"{EXPLICITLY_SET[0]}  -- or: {EXPLICITLY_SET[1]}"
    if plan.upgrade:
        yield "-- mysqlsh: util.checkForServerUpgrade() sends its own statements"
