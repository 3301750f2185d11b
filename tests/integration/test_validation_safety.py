"""What the source itself saw of a validation: reads only, each of them in the report, and no password anywhere."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from featured_schema import ACCOUNTS, SCHEMA, STATEMENTS
from scratch_server import ScratchServer, scratch_server
from slow_log_writer import Shop, slow_log

import volbench
from volbench.core.sql.fingerprint import fingerprint
from volbench.machine.engine.connection import Account, connection, write_private

pytestmark = pytest.mark.mysqld
PASSWORD = "vault-9731"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(volbench.__file__).parents[1])}
COMMAND = [sys.executable, "-c", "from volbench.cli.main import main; main()", "validate"]
BOUND_S = 120.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    """A source that logs every statement, and a candidate."""
    directory = tmp_path_factory.mktemp("a")
    logged = ("--log-bin=b", "--server-id=1", "--general-log=1", f"--general-log-file={directory / 'general.log'}")
    with (
        scratch_server(directory, *logged) as source,
        scratch_server(tmp_path_factory.mktemp("b")) as candidate,
    ):
        for server in (source, candidate):
            account = Account(user="root", socket=str(server.socket))
            with connection(account, timeout_s=60) as opened, opened.cursor() as cursor:
                for statement in (*ACCOUNTS, *STATEMENTS):
                    cursor.execute(statement)
        source.query(f"ALTER USER 'reader'@'localhost' IDENTIFIED BY '{PASSWORD}'")
        yield source, candidate


def command(directory: Path, source: ScratchServer, candidate: ScratchServer, *options: str) -> list[str]:
    """A validation with everything, by an account that may not write the source."""
    (directory / "slow.log").write_text("".join(slow_log(Shop(statements=2000))))
    write_private(directory / "reader.cnf", f'[client]\nuser="reader"\npassword="{PASSWORD}"\n')
    plan = directory / "plan.yaml"
    plan.write_text(
        f"schema: 2\nsource: {{socket: {source.socket}, user: reader, option_file: {directory / 'reader.cnf'}}}\n"
        f"candidate: {{socket: {candidate.socket}, disposable: true}}\nschemas: [{SCHEMA}]\n"
        f"queries: {{slow_log: {directory / 'slow.log'}, pt_upgrade: true}}\n"
        f"replay: {{slow_log: {directory / 'slow.log'}}}\n"
        "settings: {}\nmove: {window: 4h}\nburst: {volume: ebs-gp3}\n"
    )
    return [*COMMAND, str(plan), "--out", str(directory / "out"), *options]


def state_of(server: ScratchServer) -> list[object]:
    """Everything that a write would change: the binary log, every row, objects and accounts."""
    tables = [name for name, kind in server.query(f"SHOW FULL TABLES FROM {SCHEMA}") if kind == "BASE TABLE"]
    requests = (
        "SHOW MASTER STATUS",
        *(f"SELECT * FROM {SCHEMA}.{name} ORDER BY 1, 2" for name in tables),
        f"SHOW TRIGGERS FROM {SCHEMA}",
        f"SHOW EVENTS FROM {SCHEMA}",
        "SHOW GRANTS FOR reader@localhost",
        "SELECT user, host FROM mysql.user ORDER BY 1, 2",
    )
    return [server.query(statement) for statement in requests]


def arguments_seen(running: subprocess.Popen[bytes], observed: set[str], stop: threading.Event) -> None:
    """Command lines of the validation and of what it started, looked at again and again."""
    while not stop.wait(0.05):
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                group = os.getpgid(int(entry.name))
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if group == running.pid:
                observed.add(text)


def test_the_source_is_sent_what_the_report_lists_and_nothing_that_writes(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]
) -> None:
    """By the server's own general log, its binary log, and every row; the password is nowhere."""
    source, candidate = pair
    before, log = state_of(source), source.directory / "general.log"
    begin, observed, stop = log.stat().st_size, set[str](), threading.Event()
    with (tmp_path / "said").open("wb") as opened:
        running = subprocess.Popen(
            command(tmp_path, source, candidate),
            stdout=opened,
            stderr=opened,
            start_new_session=True,
            env=ENVIRONMENT,
        )
        watching = threading.Thread(target=arguments_seen, args=(running, observed, stop))
        watching.start()
        try:
            code = running.wait(BOUND_S)
        finally:
            running.kill()
            stop.set()
            watching.join(BOUND_S)
    logged = since(log, begin)
    assert state_of(source) == before
    outcome = json.loads((tmp_path / "out/validation.json").read_text())
    assert code in {0, 1, 6}, (tmp_path / "said").read_text()
    assert outcome["source_changed"] is False
    sent = {fingerprint(text) for text in statements_of("reader", logged)}
    assert sent <= set(outcome["statements_sent_to_source"]), sent - set(outcome["statements_sent_to_source"])
    assert len(sent) > 15
    texts = [
        (tmp_path / "said").read_text(),
        *(path.read_text() for path in (tmp_path / "out").iterdir()),
        *observed,
    ]
    assert len(texts) > 6
    assert not [text for text in texts if PASSWORD in text]


def test_the_source_is_sent_only_statements_of_which_a_dry_run_shows_the_shape(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]
) -> None:
    """Names of the source's own objects apart, which a dry run cannot know, and the log's queries."""
    source, candidate = pair
    log = source.directory / "general.log"
    argv = command(tmp_path, source, candidate)
    stdout = subprocess.run(
        [*argv, "--dry-run"], env=ENVIRONMENT, capture_output=True, text=True, timeout=BOUND_S, check=True
    ).stdout
    begin = log.stat().st_size
    subprocess.run(argv, env=ENVIRONMENT, capture_output=True, timeout=BOUND_S, check=False)
    planned = {kind_of(fingerprint(field)) for line in stdout.splitlines() for field in line.split("-- or:")}
    fingerprints = {fingerprint(text) for _, text in queries_of(tmp_path / "slow.log")}
    sent = {fingerprint(text) for text in statements_of("reader", since(log, begin))}
    unasked = {bare for bare in sent if bare.removeprefix("explain format=json ") not in fingerprints}
    assert len(unasked) > 15
    assert not {bare for bare in unasked if kind_of(bare) not in planned}, sorted(planned)


@pytest.mark.parametrize(
    ("point", "sent"),
    [
        ("CONSISTENT SNAPSHOT", signal.SIGKILL),
        ("information_schema.triggers", signal.SIGINT),
        ("FORCE INDEX (`PRIMARY`)", signal.SIGKILL),
        ("SHOW WARNINGS", signal.SIGKILL),  # which only pt-upgrade asks for: it has to go as well
    ],
)
def test_interrupted_at_any_point_nothing_of_the_source_is_changed(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], point: str, sent: signal.Signals
) -> None:
    """As soon as the source's own log has the statement: no connection stays, no report is left."""
    source, candidate = pair
    before, log = state_of(source), source.directory / "general.log"
    begin, deadline = log.stat().st_size, time.monotonic() + BOUND_S
    with (tmp_path / "said").open("wb") as opened:
        running = subprocess.Popen(
            command(tmp_path, source, candidate), stdout=opened, stderr=opened, env=ENVIRONMENT
        )
        try:
            while point not in since(log, begin):
                assert running.poll() is None, (tmp_path / "said").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            running.send_signal(sent)
            assert running.wait(BOUND_S) == (130 if sent == signal.SIGINT else -sent)
        finally:
            running.kill()
            running.wait(BOUND_S)
    while source.query("SELECT id FROM information_schema.processlist WHERE user = 'reader'"):
        assert time.monotonic() < deadline, "a connection is left"
        time.sleep(0.05)
    assert state_of(source) == before
    assert not (tmp_path / "out").exists()


def since(log: Path, begin: int) -> str:
    """What was written after so many bytes."""
    return log.read_bytes()[begin:].decode("utf-8", "replace")


def kind_of(bare: str) -> str:
    """Verb and where from, without names that only a connection tells."""
    arguments = bare.split("--", maxsplit=1)[0].split()
    if arguments[:1] == ["use"]:
        return "use"
    if "from" in arguments:
        table = arguments[arguments.index("from") + 1]
        return f"{arguments[0]} from {table if 'information_schema' in table or 'mysql.' in table else 'TABLE'}"
    return " ".join(arguments[:4])


def queries_of(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text().splitlines()):
        if line.upper().startswith(("SELECT", "INSERT", "UPDATE")):
            yield number, line.rstrip(";")


def statements_of(user: str, general_log: str) -> Iterator[str]:
    """What this user's connections sent: `TIME ID Command ARGUMENT`, the argument perhaps over lines."""
    entry = re.compile(
        r"^(?:\d{6} [ \d:]{8})?\s+(?P<id>\d+) (?P<command>Connect|Query|Quit|Init DB)\t?(?P<text>.*)$"
    )
    expected, current = set[str](), list[str]()
    for line in general_log.splitlines():
        result = entry.match(line)
        if not result:
            if current:
                current.append(line)
            continue
        if current:
            yield "\n".join(current)
        current = []
        if result["command"] == "Connect" and result["text"].startswith(f"{user}@"):
            expected.add(result["id"])
        elif result["command"] == "Query" and result["id"] in expected:
            current = [result["text"]]
    if current:
        yield "\n".join(current)
