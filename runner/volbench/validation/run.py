"""One validation from a plan to its outcome; both servers are read, neither is written."""

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
from volbench.analysis.gate.decide import Scope
from volbench.engine.attached import account_of
from volbench.engine.connection import Account
from volbench.errors import Refused, StepFailed, UsageError
from volbench.records.capacity import CapacityRow
from volbench.records.cell import AttachSpec
from volbench.records.report import Report
from volbench.records.validation import (
    CheckRow,
    MoveEstimate,
    QueriesPlan,
    ServerPlace,
    ServerSide,
    Validation,
    ValidationPlan,
)
from volbench.suite.validation import LoadedPlan
from volbench.validation.accounts import accounts_check, new_salt, take_logins
from volbench.validation.advisors import advice
from volbench.validation.capacity import busiest_second, candidate_capacities, capacity_check
from volbench.validation.capture import captured_classes, read_capture
from volbench.validation.checks import (
    Progress,
    checksums_check,
    definers_check,
    objects_check,
    query_checks,
)
from volbench.validation.decided import check_policy, decide_all, decide_policy, runs_used
from volbench.validation.grants import reaching
from volbench.validation.inventory import is_mariadb, take_inventory, user_schemas
from volbench.validation.move import Given, estimates, move_check, source_bytes
from volbench.validation.objects import Inventory
from volbench.validation.pt_upgrade import pt_upgrade_check
from volbench.validation.queries import QueryClass, compare_queries, query_classes
from volbench.validation.replicas import replica_check
from volbench.validation.rights import check_rights
from volbench.validation.settings import set_by_somebody, settings_check, variables
from volbench.validation.slowlog import slow_log
from volbench.validation.source import (
    LOG_POSITIONS,
    SAME_SERVER,
    VERSION,
    ReadOnlySource,
    Reads,
    excessive_privileges,
    read_only,
)
from volbench.validation.under_load import meter_of, under_load
from volbench.validation.upgrade import upgrade_check


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What the plan's runs measured."""

    reports: tuple[Report, ...] = ()
    given: tuple[Given, ...] = ()


def validate(loaded: LoadedPlan, runs: Runs, progress: Progress) -> Validation:
    """Compare candidate and source, and decide the plan's policy.

    Args:
        loaded: the plan and where its conditions stand.
        runs: those of the plan.

    Raises UsageError for schemas or logs that are not there and conditions that cannot be read, EnvironmentLacks
    when a server does not let us in, StepFailed when one stops answering.
    """
    started, plan = _now(), loaded.plan
    scopes = check_policy(plan, loaded.origins, runs.reports)
    left, right = (
        _account(place, where) for place, where in ((plan.source, "source"), (plan.candidate, "candidate"))
    )
    meter = meter_of(plan, right, progress)
    read = _read(plan, runs, scopes, (left, right), progress)
    checks = read.checks
    found = under_load(plan, right, read.schemas, meter, progress)  # last, since it may write; no snapshot is open
    checks += found.checks
    held: tuple[CapacityRow, ...] = ()
    if plan.capacity is not None:
        held = candidate_capacities(scopes, plan.capacity)
        checks += (
            capacity_check(held, plan.capacity, busiest_second(plan, read.schemas), confidence=plan.confidence),
        )
    conditions, used = decide_policy(plan, loaded.origins, scopes, checks), runs_used(scopes)
    decision, reason = decide_all(checks, conditions, used, changed=read.changed)
    return Validation(
        decision=decision,
        reason=reason,
        name=plan.name,
        plan_sha256=hashlib.sha256(loaded.text.encode()).hexdigest(),
        plan=loaded.text,
        started_at=started,
        finished_at=_now(),
        volbench_version=volbench.__version__,
        source=read.sides[0],
        candidate=read.sides[1],
        schemas=tuple(read.schemas),
        checks=checks,
        advice=read.advised,
        replay=found.replayed,
        burst=found.burst,
        growth=found.growth,
        capacities=held,
        moves=read.moves,
        runs=used,
        conditions=conditions,
        statements_sent_to_source=dict(read.sent),
        source_changed=read.changed,
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What both servers said, before anything is replayed."""

    schemas: list[str]
    checks: tuple[CheckRow, ...]
    advised: dict[str, str]
    moves: tuple[MoveEstimate, ...]
    sides: tuple[ServerSide, ServerSide]
    sent: Counter[str]
    changed: bool | None


def _read(
    plan: ValidationPlan, runs: Runs, scopes: Sequence[Scope], accounts: tuple[Account, Account], progress: Progress
) -> _Read:
    left, right = accounts
    with read_only(left) as source, read_only(right) as candidate:
        before = _log_position(source)
        schemas = _schemas(plan, source)
        _refuse_to_write_the_source(plan, source, candidate)
        unseen = [
            text
            for server, account, place in ((source, left, "source"), (candidate, right, "candidate"))
            for text in check_rights(server, schemas, place=place, user=account.user)
        ]
        took: dict[str, float] = {}
        checks = tuple(_checks(plan, schemas, accounts, source, candidate, unseen, took, progress))
        advised: dict[str, str] = {}
        if plan.settings is not None:
            ours, theirs = variables(source), variables(candidate)
            checks += (settings_check(ours, theirs, set_by_somebody(source), plan.settings.accept),)
            advised = advice(ours, theirs)
        moves: tuple[MoveEstimate, ...] = ()
        if plan.move is not None:
            wanted = {name for scope in scopes for name in scope.candidates}
            data = source_bytes(source, schemas)
            moves = estimates(runs.given, wanted, data, took.get("checksums"), plan.move)
            checks += (move_check(moves, plan.move, variables(source)),)
        sides = (_side(source, left.user), _side(candidate, right.user))
        if plan.upgrade:
            progress("upgrade checker", 0.0)
            checks += (upgrade_check(left, *sides),)
        with read_only(left, snapshot=False) as now:
            changed = _changed(before, _log_position(now))
        sent = Counter(source.statements) + Counter(now.statements)
    return _Read(
        schemas=schemas, checks=checks, advised=advised, moves=moves, sides=sides, sent=sent, changed=changed
    )


def _checks(
    plan: ValidationPlan,
    schemas: list[str],
    accounts: tuple[Account, Account],
    source: ReadOnlySource,
    candidate: Reads,
    unseen: Sequence[str],
    took: dict[str, float],
    progress: Progress,
) -> Iterator[CheckRow]:
    progress("objects", 0.0)
    values = plan.at_rest != "none"
    ours, theirs = take_inventory(source, schemas), take_inventory(candidate, schemas)
    yield objects_check(ours, theirs, unseen)
    yield _accounts_check(source, candidate, ours)
    there = _accounts(candidate)
    if there is not None:
        yield definers_check(ours, there)
    if plan.data:
        began = time.monotonic()
        yield checksums_check(source, candidate, ours, theirs, progress, values=values)
        took["checksums"] = time.monotonic() - began
    if plan.replica is not None:
        replica = source if plan.replica.on == "source" else candidate
        yield replica_check(replica, plan.replica, schemas, ours["table"])
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
    """Classes to ask, and what a reader has to know of those that are not asked."""
    notes: list[str] = []
    if queries.capture:
        found = [one for one in captured_classes(read_capture(Path(queries.capture))) if one.schema in schemas]
    else:
        left_out = Counter[str]()
        with slow_log(Path(queries.slow_log)) as log:
            found = query_classes(log, schemas, left_out=left_out)
        notes.append(f"the log: {queries.slow_log}, {log.account()}")
        notes += [f"{count} statements {reason} were left out" for reason, count in left_out.most_common()]
    if len(found) > queries.classes:
        rest, whole = (sum(one.total_s for one in part) for part in (found[queries.classes :], found))
        share = f", {rest / whole:.1%} of the time" if whole else ""
        notes.append(f"{len(found) - queries.classes} of {len(found)} classes were not asked{share}")
    return found, notes


def _schemas(plan: ValidationPlan, source: Reads) -> list[str]:
    there = user_schemas(source)
    missing = [name for name in plan.schemas if name not in there]
    if missing or not there:
        raise UsageError(
            f"the source has no schema {missing[0]!r}" if missing else "the source has no schema of its own",
            where="schemas",
            evidence=f"it shows: {', '.join(there) or 'none'}",
            next_step="name one that is there; a schema without SELECT for this user is not shown",
        )
    return list(plan.schemas) or there


def _refuse_to_write_the_source(plan: ValidationPlan, source: Reads, candidate: Reads) -> None:
    """A replay with writes, on what turns out to be the source under another name, would be the end of it."""
    if plan.replay is None or not plan.candidate.disposable:
        return
    if source.query(SAME_SERVER) == candidate.query(SAME_SERVER):
        raise Refused(
            "source and candidate are one server, and the candidate is called disposable", where="candidate",
            evidence=repr(source.query(SAME_SERVER)[0]), next_step="name the restored copy as the candidate",
        )  # fmt: skip


def _account(place: ServerPlace, where: str) -> Account:
    attach = AttachSpec(
        host=place.host, port=place.port, socket=place.socket, user=place.user, option_file=place.option_file
    )
    try:
        return account_of(attach, os.environ)
    except UsageError as error:
        error.where = where
        raise


def _side(server: ReadOnlySource, user: str) -> ServerSide:
    ((version, comment),) = server.query(VERSION)
    maria = "mariadb" in f"{version} {comment}".lower()
    return ServerSide(
        place=server.place,
        flavor="mariadb" if maria else "mysql",
        version=str(version),
        user=user,
        more_rights_than_needed=tuple(excessive_privileges(server.query)),
    )


def _accounts(server: Reads) -> set[str] | None:
    """All accounts as user@host; None where this user may not see them."""
    try:
        return {f"{user}@{host}" for user, host in server.query("SELECT user, host FROM mysql.user")}
    except StepFailed:
        return None


def _accounts_check(source: Reads, candidate: Reads, ours: Inventory) -> CheckRow:
    salt = new_salt()
    before, after = (take_logins(server, mariadb=is_mariadb(server), salt=salt) for server in (source, candidate))
    return accounts_check(before, after, reaching(ours))


def _log_position(server: Reads) -> str | None:
    """How far the binary log has come; None without one, or where no statement tells."""
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
