"""A server that answers anything: one message and an exit code, whatever was asked and whatever came.

The stranger forwards each statement to a real server and spoils one of the answers.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import mysql.connector
import pytest
from rogue_server import Answer, RogueServer, Row
from scratch_server import ScratchServer, scratch_server
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import VolbenchError
from volbench.machine.engine.connection import Account, connection

pytestmark = pytest.mark.mysqld
SCHEMA = "shop"
ESCAPE = "\x1b]0;title\x07\x1b[2J"
Spoil = Callable[[Answer], Answer | bytes]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("r")) as server:
        server.query(f"CREATE DATABASE {SCHEMA}")
        server.query(f"CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY, a VARCHAR(20))")
        server.query("INSERT INTO shop.t VALUES (1, 'x'), (2, 'y')")
        server.query("CREATE USER reader@'%'")
        server.query("GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE, PROCESS ON *.* TO reader@'%'")
        yield server


def each(change: Callable[[str | None], str | None]) -> Spoil:
    def spoil(answer: Answer) -> Answer:
        rows = [[change(value if isinstance(value, str | None) else "?") for value in row] for row in answer.rows]
        return Answer(columns=answer.columns, rows=rows or [[change("1") for _ in answer.columns]])

    return spoil


def endless(answer: Answer) -> Answer:
    row: Row = ["1" * 2000 for _ in answer.columns]
    return Answer(columns=answer.columns, rows=itertools.repeat(row))


def numbers(change: str) -> Spoil:
    return each(
        lambda value: change if value is not None and value.lstrip("-").replace(".", "").isdigit() else value
    )


SPOILED: dict[str, Spoil] = {
    "text": each(lambda _: "no number"),
    "text for a number": numbers("twelve"),
    "NULL": each(lambda _: None),
    "negative": numbers("-7"),
    "huge": numbers("9" * 400),
    "inf": numbers("inf"),
    "nan": numbers("nan"),
    "fraction": numbers("1.5"),
    "a column too few": lambda a: Answer(columns=a.columns[1:], rows=[row[1:] for row in a.rows]),
    "a column too many": lambda a: Answer(columns=[*a.columns, "x"], rows=[[*row, "1"] for row in a.rows]),
    "no row": lambda a: Answer(columns=a.columns),
    "long names": each(lambda _: "n" * 300_000),
    "escapes": each(lambda value: f"{value}{ESCAPE}"),
    "no UTF-8": lambda a: Answer(columns=a.columns, rows=[[b"\xff\xfe\x00"] * len(a.columns)]),
    "no packet": lambda _: b"\x05\x00\x00\x01\xfdabc",
    "a packet of nothing": lambda _: b"\x00\x00\x00\x01",
}


class Stranger:
    """Forwards statements; the answer to statement number `at` is spoiled, or that to each of them.

    Args:
        answers: to statements that were forwarded before; None: each one is forwarded.
    """

    def __init__(
        self, real: ScratchServer, spoil: Spoil | None, at: int | None, answers: dict[str, Answer] | None = None
    ) -> None:
        self.spoil, self.at, self.asked, self._answers = spoil, at, 0, answers
        self._account = Account(user="root", socket=str(real.socket))
        self._lock = threading.Lock()

    def __call__(self, sql: str) -> Answer | bytes:
        with self._lock:
            number, self.asked = self.asked, self.asked + 1
        answer = self._answer(sql)
        if self.spoil is None or (self.at is not None and number != self.at):
            return answer
        return self.spoil(answer)

    def _answer(self, sql: str) -> Answer:
        if self._answers is None:
            return self._forwarded(sql)
        if sql not in self._answers:
            self._answers[sql] = self._forwarded(sql)
        return self._answers[sql]

    def _forwarded(self, sql: str) -> Answer:
        try:
            with connection(self._account, timeout_s=30) as opened, opened.cursor(raw=True) as cursor:
                cursor.execute(sql)
                names = [str(column[0]) for column in cursor.description or ()]
                rows = [
                    [None if v is None else bytes(cast("bytes", v)).decode("utf-8", "replace") for v in row]
                    for row in (cursor.fetchall() if names else [])
                ]
        except mysql.connector.Error:
            return Answer(columns=("x",))
        return Answer(columns=names or ("x",), rows=rows)


def ended(arguments: list[str]) -> tuple[int, str]:
    """The exit code and the output of a command; anything but a VolbenchError or an exit is a fault."""
    result = CliRunner().invoke(app, arguments)
    error = result.exception
    if isinstance(error, VolbenchError):
        return error.exit_code, str(error)
    assert error is None or isinstance(error, SystemExit), f"{type(error).__name__}: {error}"
    return result.exit_code, result.output


def capture(server: RogueServer, directory: Path) -> list[str]:
    return [
        "capture",
        str(directory / "c.json"),
        "--server",
        f"mysql://reader@127.0.0.1:{server.port}",
        "--for",
        "1ms",
        "--allow-privileged",
    ]


def validation(server: RogueServer, directory: Path, real: ScratchServer) -> list[str]:
    (directory / "plan.yaml").write_text(
        f"schema: 2\nsource: {{host: 127.0.0.1, port: {server.port}, user: reader}}\n"
        f"candidate: {{socket: {real.socket}}}\nschemas: [{SCHEMA}]\nsettings: {{}}\nmove: {{window: 4h}}\n"
    )
    return ["validate", str(directory / "plan.yaml"), "--out", str(directory / "out")]


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """What the real server answers to the same statement: asked once, since nothing changes there."""
    return {}


@pytest.fixture(scope="module")
def sent_by_a_capture(
    real: ScratchServer, answers: dict[str, Answer], tmp_path_factory: pytest.TempPathFactory
) -> int:
    """How many statements one sends that gets good answers."""
    stranger = Stranger(real, None, None, answers)
    with RogueServer(answer=stranger).serving() as server:
        code, output = ended(capture(server, tmp_path_factory.mktemp("capture")))
    assert code == 0, output
    return stranger.asked


@pytest.fixture(scope="module")
def sent_by_a_validation(
    real: ScratchServer, answers: dict[str, Answer], tmp_path_factory: pytest.TempPathFactory
) -> int:
    """How many statements one sends that gets good answers."""
    stranger = Stranger(real, None, None, answers)
    with RogueServer(answer=stranger).serving() as server:
        ended(validation(server, tmp_path_factory.mktemp("validation"), real))
    return stranger.asked


@pytest.mark.parametrize("kind", SPOILED)
def test_a_capture_of_a_stranger_ends_with_one_message(
    tmp_path: Path, real: ScratchServer, answers: dict[str, Answer], sent_by_a_capture: int, kind: str
) -> None:
    """Each statement's answer is spoiled in turn, then all of them."""
    stranger = Stranger(real, None, None, answers)
    with RogueServer(answer=stranger).serving() as server:
        for at in (*range(sent_by_a_capture), None):
            (tmp_path / "c.json").unlink(missing_ok=True)
            stranger.spoil, stranger.at, stranger.asked = SPOILED[kind], at, 0
            code, output = ended(capture(server, tmp_path))
            assert code in {0, 2, 3, 5}, (at, output)
            assert (tmp_path / "c.json").exists() is (code == 0)


@pytest.mark.parametrize("kind", SPOILED)
def test_a_validation_of_a_stranger_ends_with_one_message_or_without_a_go(
    tmp_path: Path, real: ScratchServer, answers: dict[str, Answer], sent_by_a_validation: int, kind: str
) -> None:
    stranger, step = Stranger(real, None, None, answers), 19
    with RogueServer(answer=stranger).serving() as server:
        for at in (*range(0, sent_by_a_validation, step), None):
            stranger.spoil, stranger.at, stranger.asked = SPOILED[kind], at, 0
            directory = tmp_path / str(at)
            directory.mkdir()
            code, output = ended(validation(server, directory, real))
            assert code in {1, 2, 3, 4, 5, 6}, (at, output)


def test_rows_without_an_end_are_cut_off_in_bounded_memory(tmp_path: Path, real: ScratchServer) -> None:
    stranger = Stranger(real, endless, 2)
    with RogueServer(answer=stranger).serving() as server:
        code, output = ended(capture(server, tmp_path))
    assert code in {3, 5}, output
    assert "larger than" in output


def test_an_answer_that_never_comes_ends_in_time(
    tmp_path: Path, real: ScratchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volbench.cli.migration.capture.STATEMENT_S", 2.0)
    forwarding = Stranger(real, None, None)
    with RogueServer(answer=lambda sql: forwarding(sql) if forwarding.asked < 3 else None).serving() as server:
        began = time.monotonic()
        code, output = ended(capture(server, tmp_path))
    assert code == 5, output
    assert time.monotonic() - began >= 2.0
    assert "imed out" in output


@pytest.mark.parametrize(
    "kind", ["text for a number", "huge", "inf", "NULL", "no packet", "escapes", "a column too few"]
)
def test_an_observation_keeps_what_was_read_before_a_stranger_took_over(
    tmp_path: Path, real: ScratchServer, kind: str
) -> None:
    stranger = Stranger(real, None, None)
    directory = tmp_path / "observed"
    with RogueServer(answer=stranger).serving() as server:

        def take_over() -> None:
            deadline = time.monotonic() + 60
            while stranger.asked < 60 and time.monotonic() < deadline:
                time.sleep(0.05)
            stranger.spoil = SPOILED[kind]

        thread = threading.Thread(target=take_over)
        thread.start()
        code, output = ended(
            [
                "observe",
                "--server",
                f"mysql://reader@127.0.0.1:{server.port}",
                "--for",
                "6s",
                "--interval",
                "0.2s",
                "--volume",
                "none",
                "--out",
                str(directory),
                "--quiet",
                "--allow-privileged",
            ]
        )
        thread.join()
    assert code == 0, output
    assert ESCAPE not in output
    code, output = ended(["observe", "report", str(directory), "--json"])
    assert code == 0, output
    assert json.loads((directory / "report.json").read_text())


@pytest.mark.parametrize("kind", SPOILED)
def test_an_observation_of_a_stranger_begins_or_ends_with_one_message(
    tmp_path: Path, real: ScratchServer, kind: str
) -> None:
    stranger = Stranger(real, SPOILED[kind], None)
    with RogueServer(answer=stranger).serving() as server:
        code, output = ended(
            [
                "observe",
                "--server",
                f"mysql://reader@127.0.0.1:{server.port}",
                "--for",
                "1s",
                "--volume",
                "none",
                "--out",
                str(tmp_path / "observed"),
                "--quiet",
                "--allow-privileged",
            ]
        )
    assert code in {0, 2, 3, 5}, output
