"""One validation from its plan to its outcome; both servers are only read, except by a replay."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import volbench
from volbench.core.base.text import counted, percent
from volbench.core.records.cell import AttachSpec
from volbench.core.records.goals.capacity import CapacityRow
from volbench.core.records.report import Report
from volbench.core.records.validation.plan import QueriesPlan, ServerPlace, ValidationPlan
from volbench.core.records.validation.result import CheckRow, MoveEstimate, ServerSide, Validation
from volbench.core.suite.validation import LoadedPlan
from volbench.errors import Refused, StepFailed, UsageError
from volbench.machine.engine.answers import reads_answers
from volbench.machine.engine.attached import account_of
from volbench.machine.engine.connection import Account
from volbench.measure.workload.replay.slowlog import why_outside_schema
from volbench.results.gate.decide import Scope
from volbench.validation.capture.digests import read_capture, repeatable_classes
from volbench.validation.catalog.accounts import accounts_check, new_salt, read_logins
from volbench.validation.catalog.grants import accounts_with_access
from volbench.validation.catalog.inventory import is_mariadb, read_inventory, user_schemas
from volbench.validation.catalog.objects import Inventory
from volbench.validation.checks import Progress, checksums_check, definers_check, objects_check, query_checks
from volbench.validation.data.chunk_sums import chunk_sessions
from volbench.validation.data.replicas import replica_check
from volbench.validation.decision import check_policy, decide_all, decide_policy, run_references
from volbench.validation.forecast.capacity import busiest_second, candidate_capacities, capacity_check
from volbench.validation.forecast.move import RunCells, estimates, move_check, source_bytes
from volbench.validation.queries.classes import QueryClass, classes_of_log
from volbench.validation.queries.comparison import compare_queries
from volbench.validation.queries.pt_upgrade import pt_upgrade_check
from volbench.validation.replay_checks import make_meter, run_replay_checks
from volbench.validation.source.advisors import advice
from volbench.validation.source.privileged import TO_VALIDATE, refuse_privileged
from volbench.validation.source.rights import check_rights
from volbench.validation.source.server import (
    LOG_POSITIONS,
    SAME_SERVER,
    VERSION,
    ReadOnlyServer,
    SqlReader,
    excessive_privileges,
    is_same_server,
    read_only,
)
from volbench.validation.source.settings import explicitly_set_variables, settings_check, variables
from volbench.validation.source.upgrade import upgrade_check


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The measurements of the plan's runs."""

    reports: tuple[Report, ...] = ()
    cells: tuple[RunCells, ...] = ()


def validate(loaded: LoadedPlan, runs: Runs, progress: Progress) -> Validation:
    """Compare candidate and source, and decide the plan's policy.

    Args:
        loaded: the plan and the locations of its conditions.
        runs: measurements of the plan's runs.
        progress: called with an activity and a share.

    Raises UsageError for missing schemas or logs and wrong conditions, MissingPrerequisite when a server refuses
    the connection, StepFailed when a server stops answering.
    """
    started, plan = _now(), loaded.plan
    scopes = check_policy(plan, loaded.origins, runs.reports)
    source_account, candidate_account = (
        _account(server, side) for server, side in ((plan.source, "source"), (plan.candidate, "candidate"))
    )
    meter = make_meter(plan, candidate_account, progress)
    comparison = _compare_servers(plan, runs, scopes, (source_account, candidate_account), progress)
    checks = comparison.checks
    replay_outcome = run_replay_checks(
        plan, candidate_account, comparison.schemas, meter, progress
    )  # last, since it may write; no snapshot is open
    checks += replay_outcome.checks
    capacity_rows: tuple[CapacityRow, ...] = ()
    if plan.capacity is not None:
        capacity_rows = candidate_capacities(scopes, plan.capacity)
        checks += (
            capacity_check(
                capacity_rows, plan.capacity, busiest_second(plan, comparison.schemas), confidence=plan.confidence
            ),
        )
    conditions, references = decide_policy(plan, loaded.origins, scopes, checks), run_references(scopes)
    decision, reason = decide_all(checks, conditions, references, source_changed=comparison.changed)
    return Validation(
        decision=decision,
        reason=reason,
        name=plan.name,
        plan_sha256=hashlib.sha256(loaded.text.encode()).hexdigest(),
        plan=loaded.text,
        started_at=started,
        finished_at=_now(),
        volbench_version=volbench.__version__,
        source=comparison.sides[0],
        candidate=comparison.sides[1],
        schemas=tuple(comparison.schemas),
        checks=checks,
        advice=comparison.advice,
        replay=replay_outcome.replayed,
        burst=replay_outcome.burst,
        growth=replay_outcome.growth,
        capacities=capacity_rows,
        moves=comparison.moves,
        runs=references,
        conditions=conditions,
        statements_sent_to_source=dict(comparison.statements_sent),
        source_changed=comparison.changed,
    )


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """The comparison of both servers before a replay."""

    schemas: list[str]
    checks: tuple[CheckRow, ...]
    advice: dict[str, str]
    moves: tuple[MoveEstimate, ...]
    sides: tuple[ServerSide, ServerSide]
    statements_sent: Counter[str]
    changed: bool | None


def _compare_servers(
    plan: ValidationPlan, runs: Runs, scopes: Sequence[Scope], accounts: tuple[Account, Account], progress: Progress
) -> _Comparison:
    source_account, candidate_account = accounts
    with read_only(source_account) as source, read_only(candidate_account) as candidate:
        refuse_privileged(
            source.query,
            where="source",
            grants=TO_VALIDATE,
            option="source.allow_privileged: true in the plan",
            is_allowed=plan.source.allow_privileged,
        )
        before = _log_position(source)
        schemas = _schemas(plan, source)
        _refuse_the_same_server(source, candidate)
        _refuse_to_write_the_source(plan, source, candidate)
        unreadable = [
            text
            for server, account, side in (
                (source, source_account, "source"),
                (candidate, candidate_account, "candidate"),
            )
            for text in check_rights(server, schemas, side=side, user=account.user)
        ]
        durations_s: dict[str, float] = {}
        checks = tuple(_checks(plan, schemas, accounts, source, candidate, unreadable, durations_s, progress))
        advice_texts: dict[str, str] = {}
        if plan.settings is not None:
            source_variables, candidate_variables = variables(source), variables(candidate)
            checks += (
                settings_check(
                    source_variables, candidate_variables, explicitly_set_variables(source), plan.settings.accept
                ),
            )
            advice_texts = advice(source_variables, candidate_variables)
        moves: tuple[MoveEstimate, ...] = ()
        if plan.move is not None:
            volumes = {name for scope in scopes for name in scope.candidates}
            data = source_bytes(source, schemas)
            moves = estimates(runs.cells, volumes, data, durations_s.get("checksums"), plan.move)
            checks += (move_check(moves, plan.move, variables(source)),)
        sides = (_side(source, source_account.user), _side(candidate, candidate_account.user))
        if plan.upgrade:
            progress("upgrade checker", 0.0)
            checks += (upgrade_check(source_account, *sides),)
        with read_only(source_account, snapshot=False) as later:
            changed = _changed(before, _log_position(later))
        sent = Counter(source.statements) + Counter(later.statements)
    return _Comparison(
        schemas=schemas,
        checks=checks,
        advice=advice_texts,
        moves=moves,
        sides=sides,
        statements_sent=sent,
        changed=changed,
    )


def _checks(
    plan: ValidationPlan,
    schemas: list[str],
    accounts: tuple[Account, Account],
    source: ReadOnlyServer,
    candidate: SqlReader,
    unreadable: Sequence[str],
    durations_s: dict[str, float],
    progress: Progress,
) -> Iterator[CheckRow]:
    progress("objects", 0.0)
    values = plan.at_rest != "none"
    source_inventory, candidate_inventory = read_inventory(source, schemas), read_inventory(candidate, schemas)
    yield objects_check(source_inventory, candidate_inventory, unreadable)
    yield _accounts_check(source, candidate, source_inventory)
    yield definers_check(source_inventory, _accounts(candidate), unreadable)
    if plan.data:
        began = time.monotonic()
        with chunk_sessions(*accounts, plan.checksum_connections) as pairs:
            row = checksums_check(
                source, candidate, source_inventory, candidate_inventory, progress, pairs=pairs, values=values
            )
        for session, _ in pairs:
            source.record_external_statements(session.statements)
        yield row
        durations_s["checksums"] = time.monotonic() - began
    if plan.replica is not None:
        replica = source if plan.replica.on == "source" else candidate
        yield replica_check(replica, plan.replica, schemas, source_inventory["table"])
    if plan.queries is not None:
        classes, notes = _query_classes(plan.queries, schemas)
        compared = compare_queries(source, candidate, classes[: plan.queries.classes], progress)
        yield from query_checks(compared, values=values, notes=notes)
        if plan.queries.pt_upgrade:
            progress("pt-upgrade", 0.0)
            yield pt_upgrade_check(
                (source, candidate), accounts, compared, seconds=plan.queries.pt_upgrade_s, values=values
            )


def _query_classes(queries: QueriesPlan, schemas: list[str]) -> tuple[list[QueryClass], list[str]]:
    """Return the classes to run, and notes on those that are skipped."""
    notes: list[str] = []
    if queries.capture:
        skipped = Counter[str]()
        classes = []
        for query_class in repeatable_classes(read_capture(Path(queries.capture)), skipped=skipped):
            if reason := why_outside_schema(query_class.schema, schemas):
                skipped[reason] += 1
            else:
                classes.append(query_class)
        notes += [f"skipped {counted(count, 'class', 'classes')} {reason}" for reason, count in skipped.items()]
    else:
        log = classes_of_log(Path(queries.slow_log), schemas)
        classes = log.classes
        notes.append(f"the log: {queries.slow_log}, {log.summary}")
        notes += [f"skipped {counted(count, 'statement')} {reason}" for reason, count in log.skipped.most_common()]
    if len(classes) > queries.classes:
        skipped_s, total_s = (
            sum(query_class.total_s for query_class in group) for group in (classes[queries.classes :], classes)
        )
        share = f", {percent(skipped_s / total_s)} of the time" if total_s else ""
        notes.append(
            f"{len(classes) - queries.classes} of {counted(len(classes), 'class', 'classes')} skipped{share}"
        )
    return classes, notes


def _schemas(plan: ValidationPlan, source: SqlReader) -> list[str]:
    existing = user_schemas(source)
    missing = [name for name in plan.schemas if name not in existing]
    if missing or not existing:
        raise UsageError(
            f"the source has no schema {missing[0]!r}" if missing else "the source has no user schema",
            where="schemas",
            evidence=f"visible schemas: {', '.join(existing) or 'none'}",
            next_step="name an existing schema; a schema without SELECT for this user is not visible",
        )
    return list(plan.schemas) or existing


def _refuse_the_same_server(source: SqlReader, candidate: SqlReader) -> None:
    """Raise Refused for a server that would be compared with itself: all of it is equal, and proves nothing."""
    if is_same_server(source, candidate):
        raise Refused(
            "source and candidate are the same server, so that nothing would be compared",
            where="candidate",
            evidence=repr(source.query(SAME_SERVER)[0]),
            next_step="name the server to move to, or the restored copy, as the candidate",
        )


def _refuse_to_write_the_source(plan: ValidationPlan, source: SqlReader, candidate: SqlReader) -> None:
    """Raise Refused when a replay with writes would run on the source itself under another name."""
    if plan.replay is None or not plan.candidate.disposable:
        return
    if source.query(SAME_SERVER) == candidate.query(SAME_SERVER):
        raise Refused(
            "source and candidate are the same server, and the candidate is disposable",
            where="candidate",
            evidence=repr(source.query(SAME_SERVER)[0]),
            next_step="name the restored copy as the candidate",
        )


def _account(server: ServerPlace, side: str) -> Account:
    attach = AttachSpec.model_validate(server.model_dump(include=set(AttachSpec.model_fields)))
    try:
        return account_of(attach, os.environ)
    except UsageError as error:
        error.where = side
        raise


@reads_answers("its version")
def _side(server: ReadOnlyServer, user: str) -> ServerSide:
    ((version, comment),) = server.query(VERSION)
    maria = "mariadb" in f"{version} {comment}".lower()
    return ServerSide(
        address=server.address,
        flavor="mariadb" if maria else "mysql",
        version=str(version),
        user=user,
        excess_privileges=tuple(excessive_privileges(server.query)),
    )


@reads_answers("accounts")
def _accounts(server: SqlReader) -> set[str] | None:
    """Return all accounts as user@host; None where this account may not see them."""
    try:
        return {f"{user}@{host}" for user, host in server.query("SELECT user, host FROM mysql.user")}
    except StepFailed:
        return None


def _accounts_check(source: SqlReader, candidate: SqlReader, source_inventory: Inventory) -> CheckRow:
    salt = new_salt()
    before, after = (read_logins(server, mariadb=is_mariadb(server), salt=salt) for server in (source, candidate))
    return accounts_check(before, after, accounts_with_access(source_inventory))


@reads_answers("binary logs")
def _log_position(server: SqlReader) -> str | None:
    """Return the position of the binary log; None without one, or where no statement shows it."""
    for statement in LOG_POSITIONS:
        try:
            rows = server.query(statement)
        except StepFailed:
            continue
        if rows and rows[0][1] not in ("", None):
            return f"{rows[0][0]}:{rows[0][1]}"
    return None


def _changed(before: str | None, after: str | None) -> bool | None:
    return None if before is None or after is None else before != after


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
