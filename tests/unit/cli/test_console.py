"""What comes from outside is shown, and never obeyed by the terminal."""

from __future__ import annotations

import io
import logging
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from volbench.cli import console
from volbench.cli.console import SafeConsole
from volbench.core.base.text import escape_controls
from volbench.errors import UsageError

HOSTILE = "a\x1b[31m\x1b]8;;http://x\x07b\x9b2J\u202ec\u2066[red]d[/] [link=http://x]e[/link]\r\x00\udc1b\u2028"


def terminal() -> tuple[SafeConsole, io.StringIO]:
    text = io.StringIO()
    return SafeConsole(
        file=text, force_terminal=True, color_system="truecolor", markup=False, highlight=False, width=200
    ), text


def obeyed(text: str) -> list[str]:
    """The characters of a text that a terminal would obey, rich's own styles left out."""
    plain = text.replace("\x1b[1;31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")
    return [
        item
        for item in plain
        if item not in "\n\t" and unicodedata.category(item) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    ]


def test_lines_tables_and_errors_show_what_is_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed, text = terminal()
    monkeypatch.setattr(console, "err", displayed)
    monkeypatch.setattr(logging.getLogger(console.__name__), "disabled", True)  # xdist cannot send surrogates
    table = Table(HOSTILE, box=None)
    table.add_row(HOSTILE)
    displayed.print(HOSTILE)
    displayed.print(table)
    console.say(HOSTILE)
    console.show_error(UsageError(HOSTILE, where=HOSTILE, evidence=HOSTILE))
    output = text.getvalue()
    assert not obeyed(output)
    assert r"\x1b[31m" in output
    assert "[red]d[/] [link=http://x]e[/link]" in output
    assert r"\u202e" in output


def test_progress_is_harmless_too() -> None:
    displayed, text = terminal()
    with Progress(console=displayed) as bar:
        bar.add_task("read \x9b2J \u202e x", total=1)
    assert "\x9b" not in text.getvalue()
    assert "\u202e" not in text.getvalue()


@given(text=some.text(max_size=50))
def test_any_text_becomes_one_that_no_terminal_obeys(text: str) -> None:
    assert not obeyed(escape_controls(text))
    if text.isprintable():
        assert escape_controls(text) == text


def test_a_format_is_written_as_it_is_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirected report is the report; a terminal gets the harmless one."""
    for is_terminal, expected in ((False, HOSTILE), (True, escape_controls(HOSTILE))):
        out = io.StringIO()
        monkeypatch.setattr(out, "isatty", lambda answer=is_terminal: answer)
        monkeypatch.setattr(sys, "stdout", out)
        console.show_text(HOSTILE)
        assert out.getvalue() == expected


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_headline_is_bold_on_a_terminal_and_coloured_unless_no_color_is_set(
    environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = console.SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard", markup=False)
    terminal.print(Text("b is better.", style="bold green"))
    printed = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[1" in printed
    assert (";32m" in printed) == coloured
    plain = console.SafeConsole(file=io.StringIO(), markup=False)
    plain.print(Text("b is better.", style="bold green"))
    assert plain.file.getvalue() == "b is better.\n"  # type: ignore[attr-defined]
