"""Every command that lists has `--output`, and every command that ends with a result has `--json`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner

from volbench.cli.main import app

LISTS = (("volume", "list"), ("suite", "list"), ("list",), ("k8s", "list"))
JSON = (
    ("suite", "check"),
    ("capture",),
    ("observe",),
    ("observe", "report"),
    ("compose",),
    ("k8s", "render"),
    ("k8s", "list"),
    ("k8s", "clean"),
    ("k8s", "submit"),
    ("k8s", "job"),
    ("k8s", "fetch"),
    ("k8s", "snapshot"),
    ("doctor",),
    ("plan",),
)


def options_of(path: tuple[str, ...]) -> set[str]:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.get_command(click.Context(command), name)
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("path", JSON, ids=" ".join)
def test_a_command_with_a_result_has_json(path: tuple[str, ...]) -> None:
    assert "--json" in options_of(path)


@pytest.mark.parametrize("path", LISTS, ids=" ".join)
def test_a_command_that_lists_has_one_option_for_its_format(path: tuple[str, ...]) -> None:
    assert {"--output", "-o"} <= options_of(path)


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_profiles_are_the_same_in_every_format() -> None:
    stored = json.loads(printed("volume", "list", "-o", "json"))
    rows = list(csv.DictReader(printed("volume", "list", "-o", "csv").splitlines()))
    names = [profile["name"] for profile in stored["profiles"]]
    assert [row["name"] for row in rows if row["kind"] == "profile"] == names
    assert all(f"| {name} | profile |" in printed("volume", "list", "-o", "md") for name in names[:1])
    again = json.loads(printed("volume", "list", "--json"))
    assert again.keys() == stored.keys()
    assert again["profiles"] == stored["profiles"]  # volumes of other tests come and go


def test_a_checked_suite_and_a_compose_file_are_json(tmp_path: Path) -> None:
    (checked,) = json.loads(printed("suite", "check", "suites/quick.yaml", "--json"))
    assert checked["name"] == "quick"
    assert checked["steps"] > 0
    document = json.loads(printed("compose", "--volume", f"a={tmp_path}", "--json"))
    assert "server-a" in document["services"]


def test_a_masked_log_says_as_json_where_it_is(tmp_path: Path) -> None:
    log = next(Path("tests/fixtures/slowlog").rglob("*.log"), None) or next(
        Path("tests/fixtures/slowlog").glob("*")
    )
    out = tmp_path / "masked.log"
    document = json.loads(printed("capture", str(out), "--from", str(log), "--mask", "--json"))
    assert document["path"] == str(out)
    assert out.is_file()
