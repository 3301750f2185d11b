"""Consent: asked on a terminal, taken for granted where nobody can answer."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import bootstrap.__main__
from bootstrap.console import Console, consents_by_itself
from bootstrap.directories import find_directories
from volbench.errors import MissingPrerequisite, Refused


@pytest.mark.parametrize(
    ("environment", "terminal", "consents"),
    [
        ({}, True, False),
        ({}, False, True),
        ({"YES": "1"}, True, True),
        ({"YES": "0"}, True, False),
        ({"YES": ""}, True, False),
    ],
)
def test_yes_is_taken_for_granted_by_variable_or_without_terminal(
    environment: dict[str, str], terminal: bool, consents: bool
) -> None:
    assert consents_by_itself(environment, terminal=terminal) is consents


def test_what_and_why_are_said_before_yes_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    Console(yes=True).consent("installing x", "because y")
    assert "installing x: because y" in capsys.readouterr().out


@pytest.mark.parametrize("answer", ["n", "No", "what?"])
def test_anything_but_yes_refuses(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer + "\n"))
    with pytest.raises(Refused, match="installing x"):
        Console(yes=False).consent("installing x", "because y")


@pytest.mark.parametrize("answer", ["", "y", "YES"])
def test_return_and_yes_go_on(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer + "\n"))
    Console(yes=False).consent("installing x", "because y")


HOSTILE = "gcc: \x1b]0;title\x07\x1b[31m \x9b31m \u202e \ud800"


def test_no_terminal_obeys_what_a_program_has_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Console(yes=True).say(HOSTILE)
    apart = replace(find_directories(), state=tmp_path)  # else it waits for a set-up that goes on
    monkeypatch.setattr(bootstrap.__main__, "find_directories", lambda: apart)
    failure = MissingPrerequisite("compiling failed", where="set-up", evidence=HOSTILE)
    monkeypatch.setattr(bootstrap.__main__, "_do", raising(failure))
    assert bootstrap.__main__.main(["engine"]) == MissingPrerequisite.exit_code
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert "\\x1b]0;title\\x07" in text
        assert all(character.isprintable() or character in "\n\t" for character in text)


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail
