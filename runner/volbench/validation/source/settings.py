"""Variables of two servers: those that change results, safety or limits, and those unknown to the candidate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from volbench.core.base.text import counted
from volbench.core.records.validation.result import CheckRow
from volbench.errors import StepFailed
from volbench.machine.engine.answers import reads_answers
from volbench.validation.source.server import SqlReader
from volbench.validation.verdict import decide_check

VARIABLES = "SHOW GLOBAL VARIABLES"
_SET_MARIADB = (
    "SELECT variable_name FROM information_schema.system_variables "
    "WHERE global_value_origin IN ('CONFIG', 'COMMAND-LINE', 'SQL')"
)
_SET_MYSQL = (
    "SELECT variable_name FROM performance_schema.variables_info WHERE variable_source NOT IN ('COMPILED', 'LOGIN')"
)
EXPLICITLY_SET = (_SET_MYSQL, _SET_MARIADB)

RELEVANT_VARIABLES: Mapping[str, str] = {
    "sql_mode": "the server accepts or refuses other statements",
    "lower_case_table_names": "table names compare differently",
    "character_set_server": "new schemas get another character set",
    "collation_server": "new schemas sort differently",
    "init_connect": "every connection begins with another statement",
    "transaction_isolation": "transactions see other rows",
    "autocommit": "transactions end elsewhere",
    "time_zone": "times are shown and stored shifted",
    "default_storage_engine": "new tables get another storage engine",
    "explicit_defaults_for_timestamp": "new timestamp columns get other defaults",
    "div_precision_increment": "divisions have another number of digits",
    "group_concat_max_len": "GROUP_CONCAT truncates at another length",
    "default_week_format": "WEEK() counts differently",
    "auto_increment_increment": "new keys get other numbers",
    "auto_increment_offset": "new keys get other numbers",
    "innodb_strict_mode": "the server may refuse table definitions that it accepted",
    "innodb_ft_min_token_size": "full-text searches match other words",
    "innodb_flush_log_at_trx_commit": "commits have another durability",
    "sync_binlog": "commits have another durability",
    "innodb_doublewrite": "a power cut may tear pages",
    "log_bin": "replication and point-in-time recovery depend on this variable",
    "binlog_format": "replicas get another kind of events",
    "log_bin_trust_function_creators": "the server may refuse function definitions that it accepted",
    "event_scheduler": "events run, or do not",
    "local_infile": "the server accepts or refuses LOAD DATA LOCAL",
    "max_allowed_packet": "long statements and values are refused",
    "max_connections": "more clients are refused",
    "wait_timeout": "idle connections of pools are closed at another time",
    "interactive_timeout": "idle connections are closed at another time",
    "innodb_lock_wait_timeout": "waits for locks end at another time",
    "lock_wait_timeout": "waits for DDL end at another time",
    "require_secure_transport": "clients without TLS are refused",
    "read_only": "writes are refused",
    "super_read_only": "writes are refused",
}
"""What an application or an operator notices; sizes and speeds are left to measurements."""

_SAME_NAME = {"tx_isolation": "transaction_isolation", "tx_read_only": "transaction_read_only"}
_ON = {"1": "ON", "0": "OFF", "TRUE": "ON", "FALSE": "OFF"}


@reads_answers("variables")
def variables(server: SqlReader) -> dict[str, str]:
    """Return all global variables of the server, under one name for both flavors."""
    return {
        _SAME_NAME.get(name := str(row[0]).lower(), name): "" if row[1] is None else str(row[1])
        for row in server.query(VARIABLES)
    }


@reads_answers("variables")
def explicitly_set_variables(server: SqlReader) -> frozenset[str] | None:
    """Return variables that are not at the server's default; None where this account may not see them."""
    for statement in EXPLICITLY_SET:
        try:
            return frozenset(str(row[0]).lower() for row in server.query(statement))
        except StepFailed:
            continue
    return None


def settings_check(
    source: Mapping[str, str],
    candidate: Mapping[str, str],
    explicitly_set: Collection[str] | None,
    accepted: Collection[str],
) -> CheckRow:
    """Return no-go for differing relevant variables, unless the plan accepts them; details list all others."""
    differing = {name: effect for name, effect in RELEVANT_VARIABLES.items() if _differs(name, source, candidate)}
    faults = [
        _difference(name, effect, source, candidate) for name, effect in differing.items() if name not in accepted
    ]
    accepted_differences = [
        f"accepted: {_difference(name, effect, source, candidate)}"
        for name, effect in differing.items()
        if name in accepted
    ]
    removed = list(_unknown_on_candidate(source, candidate, explicitly_set))
    compared = sum(name in source and name in candidate for name in RELEVANT_VARIABLES)
    one_side = sorted(name for name in RELEVANT_VARIABLES if (name in source) != (name in candidate))
    text = f"{len(faults)} of {compared} that matter differ" if faults else f"all {compared} that matter are equal"
    if accepted_differences and not faults:
        text = f"all of {compared} that matter are equal or accepted"
    return decide_check(
        "settings",
        compared=compared,
        text=text,
        faults=faults,
        notes=(
            *accepted_differences,
            *([f"not compared, since only one side has them: {', '.join(one_side)}"] if one_side else []),
            *removed,
        ),
        nothing=f"no variable that matters was compared: the source showed {counted(len(source), 'variable')}, "
        f"the candidate {len(candidate)}",
    )


def _differs(name: str, source: Mapping[str, str], candidate: Mapping[str, str]) -> bool:
    """Return whether both sides have the variable with different values."""
    if name not in source or name not in candidate:
        return False
    return _normalise(name, source[name]) != _normalise(name, candidate[name])


def _normalise(name: str, value: str) -> str:
    if name == "sql_mode":
        return normalise_sql_mode(value)
    value = value.strip().upper()
    return _ON.get(value, value).replace("UTF8MB3", "UTF8").replace("_", "-")


def normalise_sql_mode(value: str) -> str:
    """Return the modes in one order, without those of no effect."""
    modes = value.strip().upper().split(",")
    return ",".join(sorted(mode for mode in modes if mode and mode not in _INEFFECTIVE_MODES))


_INEFFECTIVE_MODES = {"NO_AUTO_CREATE_USER"}
"""MySQL 8.0 removed the mode, since it always behaves so; MariaDB still shows it."""


def _difference(name: str, effect: str, source: Mapping[str, str], candidate: Mapping[str, str]) -> str:
    return f"{name}: {source[name]!r} became {candidate[name]!r}: {effect}"


def _unknown_on_candidate(
    source: Mapping[str, str], candidate: Mapping[str, str], explicitly_set: Collection[str] | None
) -> Iterator[str]:
    """Yield settings that a copied configuration would have, and with which the candidate would not start."""
    unknown = sorted(source.keys() - candidate.keys())
    if explicitly_set is None:
        variables = counted(len(unknown), "variable")
        yield f"the candidate does not know {variables} of the source; unknown which of them were set"
        return
    for name in unknown:
        if name in explicitly_set:
            yield f"{name} = {source[name]!r}: set on the source, unknown to the candidate; remove it from my.cnf"
