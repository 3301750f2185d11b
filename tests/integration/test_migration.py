"""The whole way of a migration, MariaDB on one emulated volume to MySQL 9.7 on another: go, and no-go with reasons.

`VOLBENCH_MIGRATION_EXAMPLE` names a directory that keeps the reports: those of results/examples/validation.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from featured_schema import SCHEMA
from migration import Migration, execute, migration
from slow_log_writer import Shop, slow_log
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.machine.volume.emulated.volume import EmulatedVolume

pytestmark = [
    pytest.mark.docker,
    pytest.mark.emulator,
    pytest.mark.mysqld,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
EXAMPLE = "VOLBENCH_MIGRATION_EXAMPLE"
STATEMENTS = 52_000
FAULTS = {
    "DELETE FROM orders WHERE id = 2001": ("checksums", "row 2001 is missing on the candidate"),
    "ALTER TABLE customers MODIFY name VARCHAR(80) COLLATE utf8mb4_bin": (
        "objects",
        "column shop.customers.name: another collation",
    ),
    "DROP TRIGGER log_order": ("objects", "trigger shop.log_order: missing"),
    "ALTER TABLE customers ALTER INDEX email INVISIBLE": (
        "times",
        "select id, name from customers where email = ?",
    ),
    "DROP FUNCTION vat": ("queries", "differs: select vat(?)"),
    "CREATE DEFINER = 'app'@'localhost' FUNCTION vat (amount DECIMAL(12,2)) RETURNS DECIMAL(12,2) DETERMINISTIC "
    "RETURN amount * 0.16": ("objects", "routine shop.FUNCTION.vat: another body"),
}
"""What is done to the candidate, and the check that names it with what words."""
VOLUMES = {"clean": "ebs-gp3?size=10GiB", "planted": "ebs-gp2?size=10GiB"}
BASELINE_IOPS = 100
"""Of gp2 of this size; the shop's commits alone exceed it."""


def plan_file(made: Migration, spec: str) -> Path:
    log = made.directory / "slow.log"
    times = {"": 0.03}  # a production on slow volumes, so that other work on a small machine is not called slower
    log.write_text("".join(slow_log(Shop(statements=STATEMENTS, per_s=500, connections=40, query_s=times))))
    plan = made.directory / "plan.yaml"
    plan.write_text(
        f"""schema: 2
name: shop from MariaDB 10.11 to MySQL 9.7
source: {{socket: {made.source.socket}, user: reader, option_file: {made.reader_file()}}}
candidate: {{socket: {made.candidate.socket}, option_file: {made.candidate.option_file}, disposable: true}}
schemas: [{SCHEMA}]
queries: {{slow_log: {log}}}
settings: {{accept: [{", ".join(OF_THE_FLAVOR)}]}}
replay: {{slow_log: {log}, late_max: 20%, slower: 3}}
burst: {{volume: "{spec}", data_dir: {made.volume.data}, duration: 24h}}
policy: [objects equal, checksums equal, queries equal, times equal, replay equal, burst equal]
"""
    )
    return plan


OF_THE_FLAVOR = (
    "sql_mode",
    "character_set_server",
    "collation_server",
    "group_concat_max_len",
    "sync_binlog",
    "binlog_format",
    "event_scheduler",
    "local_infile",
    "max_allowed_packet",
    "lock_wait_timeout",
)
"""What MariaDB and MySQL ship differently."""


def validated(made: Migration, kind: str) -> tuple[int, Any]:
    out = made.directory / kind
    position = made.source.query("SHOW MASTER STATUS")
    ended = CliRunner().invoke(app, ["validate", str(plan_file(made, VOLUMES[kind])), "--out", str(out)])
    assert (out / "validation.json").exists(), f"{ended.output} {ended.exception!r}"
    assert made.source.query("SHOW MASTER STATUS") == position
    if os.environ.get(EXAMPLE):
        path = Path(os.environ[EXAMPLE]) / kind
        shutil.copytree(out, path, dirs_exist_ok=True)
    return ended.exit_code, json.loads((out / "validation.json").read_text())


def decisions(result: Any) -> dict[str, str]:
    return {row["check"]: row["decision"] for row in result["checks"]}


def credits_of(volume: EmulatedVolume) -> float:
    """What the volume itself says is in its bucket."""
    return next(
        balance["units"] for balance in volume.counters()["balances"] if balance["limit"] == "volume.credits"
    )


def test_on_a_clean_twin_nothing_is_invented(base: Path) -> None:
    with migration(base, VOLUMES["clean"]) as made:
        code, result = validated(made, "clean")
    assert set(decisions(result).values()) == {"go"}, result["checks"]
    assert (code, result["decision"]) == (0, "go")
    assert result["replay"]["sent"] == result["replay"]["statements"] > 50_000
    assert result["burst"]["runway_s"] is None


def test_each_planted_fault_is_found_by_its_check_and_named(base: Path) -> None:
    with migration(base, VOLUMES["planted"]) as made:
        execute(made.candidate.account, *FAULTS, schema=SCHEMA)
        made.volume.fault("credits", fill=0.5)  # neither full nor empty, so that all that is charged shows
        before, began = credits_of(made.volume), time.monotonic()
        code, result = validated(made, "planted")
        charged = before - credits_of(made.volume) + BASELINE_IOPS * (time.monotonic() - began)
    texts = {row["check"]: "\n".join((row["text"], *row["details"])) for row in result["checks"]}
    assert code == 1
    for check, arguments in FAULTS.values():
        assert decisions(result)[check] == "no-go", texts[check]
        assert arguments in texts[check], texts[check]
    assert decisions(result)["burst"] == "no-go", texts["burst"]
    assert "volume.credits run out after" in texts["burst"]
    assert result["burst"]["iops"] * result["replay"]["log_s"] == pytest.approx(charged, rel=0.15)
    assert decisions(result)["settings"] == decisions(result)["definers"] == "go"
