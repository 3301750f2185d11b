"""Who may read a server in use: an account with FILE or SUPER only if the user insists, whatever gives it that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_server import ScratchServer, scratch_server
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import Refused, VolbenchError

pytestmark = pytest.mark.mysqld


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path_factory.mktemp("s")) as running:
        for statement in (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY)",
            "CREATE USER all_of_it@localhost",
            "GRANT ALL ON *.* TO all_of_it@localhost",
            "CREATE USER writer@localhost",
            "GRANT SELECT, FILE, PROCESS ON *.* TO writer@localhost",
            "CREATE USER super@localhost",
            "GRANT SELECT, SUPER, PROCESS ON *.* TO super@localhost",
            "CREATE USER admin@localhost",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, PROCESS, CREATE USER ON *.* TO admin@localhost",
            "CREATE USER reader@localhost",
            "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE, PROCESS ON *.* TO reader@localhost",
        ):
            running.query(statement)
        if running.mariadb:
            for statement in (
                "CREATE ROLE powers",
                "GRANT FILE ON *.* TO powers",
                "CREATE USER by_role@localhost",
                "GRANT SELECT, PROCESS ON *.* TO by_role@localhost",
                "GRANT powers TO by_role@localhost",
                "SET DEFAULT ROLE powers FOR by_role@localhost",
            ):
                running.query(statement)
        yield running


def run(arguments: list[str]) -> VolbenchError | int:
    result = CliRunner().invoke(app, arguments)
    return result.exception if isinstance(result.exception, VolbenchError) else result.exit_code


def command(name: str, server: ScratchServer, user: str, directory: Path, *, insist: bool) -> list[str]:
    dsn, option = f"mysql://{user}@localhost?socket={server.socket}", ["--allow-privileged"] * insist
    if name == "capture":
        return ["capture", str(directory / "c"), "--server", dsn, "--for", "1ms", *option]
    if name == "observe":
        out = ["--out", str(directory / "o"), "--volume", "none"]
        return ["observe", "--server", dsn, "--for", "1s", "--quiet", *out, *option]
    (directory / "plan.yaml").write_text(
        f"schema: 2\nsource: {{socket: {server.socket}, user: {user}, allow_privileged: {str(insist).lower()}}}\n"
        f"candidate: {{socket: {server.socket}}}\nschemas: [shop]\n"
    )
    return ["validate", str(directory / "plan.yaml"), "--out", str(directory / "v")]


@pytest.mark.parametrize("name", ["capture", "observe", "validate"])
@pytest.mark.parametrize(
    ("user", "retained"),
    [
        ("root", "FILE, SUPER"),
        ("all_of_it", "FILE, SUPER"),
        ("writer", "FILE"),
        ("super", "SUPER"),
        ("by_role", "FILE"),
    ],
)
def test_an_account_that_may_do_more_than_read_is_refused_with_the_grants_that_are_enough(
    tmp_path: Path, server: ScratchServer, name: str, user: str, retained: str
) -> None:
    if user == "by_role" and not server.mariadb:
        pytest.skip("does not apply: the role is made for MariaDB")
    refused = run(command(name, server, user, tmp_path, insist=False))
    assert isinstance(refused, Refused), refused
    assert f"'{user}'@'localhost' may do more than read: {retained}" in refused.what
    assert "CREATE USER 'volbench'@'localhost'" in refused.next_step
    assert "GRANT " in refused.next_step
    assert "privileged" in refused.next_step
    assert [path.name for path in tmp_path.iterdir() if path.name != "plan.yaml"] == []


@pytest.mark.parametrize("name", ["capture", "observe"])
@pytest.mark.parametrize(("user", "insist"), [("root", True), ("admin", False), ("reader", False)])
def test_an_administrator_without_them_and_one_who_insists_may_read(
    tmp_path: Path, server: ScratchServer, name: str, user: str, insist: bool
) -> None:
    """Accounts of RDS have neither FILE nor SUPER."""
    assert run(command(name, server, user, tmp_path, insist=insist)) == 0


def test_a_plan_insists_by_its_key(tmp_path: Path, server: ScratchServer) -> None:
    refused = run(command("validate", server, "root", tmp_path, insist=True))
    assert isinstance(refused, Refused)
    assert "same server" in refused.what  # it got that far
