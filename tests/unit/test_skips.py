"""The table of skipped tests, and that every reason to skip is listed in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import skips

TESTS = Path(__file__).parents[1]


def test_each_lack_is_counted_once_with_its_remedy() -> None:
    table, unlisted = skips.summary(
        ["needs nfs: none (mend: modprobe nfs)", "needs nfs: none (mend: modprobe nfs)"]
    )
    assert unlisted == []
    assert [line.split()[0] for line in table] == ["tests", "2"]
    assert "modprobe nfs" in table[1]


def test_a_combination_that_does_not_apply_is_no_lack() -> None:
    table, unlisted = skips.summary(["does not apply: tried with a local server"])
    assert unlisted == []
    assert "does not apply" in table[1]


def test_a_reason_that_nobody_listed_is_told() -> None:
    assert skips.summary(["the moon is full"]) == ([], ["1 x the moon is full"])


@pytest.mark.parametrize("program", ["git", "pt-upgrade", "bzip2", "mkfs.ext4"])
@pytest.mark.parametrize("reason", ["needs {}", "{} is not installed", "no {} here"])
def test_every_program_that_a_machine_may_lack_is_listed(reason: str, program: str) -> None:
    """Names of programs have digits and dots."""
    lack = skips.lack_of(reason.format(program))
    assert lack is not None
    assert lack.means == "a program"


def test_nothing_skipped_makes_no_table() -> None:
    assert skips.summary([]) == ([], [])


#: What a computed part of a reason may be: a program, a source of samples, a method.
WORDS = ("cargo", "psi", "mincore")


def reasons() -> list[tuple[str, list[str]]]:
    """File and texts of every reason in the tests: one text for each word that its computed parts may be."""
    stated = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            values = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            if name == "pytest.skip":
                values += node.args[:1]
            elif not name.endswith("skipif"):
                continue
            stated += [(path.name, [literal_text(value, term) for term in WORDS]) for value in values]
    return stated


def literal_text(value: ast.expr, term: str) -> str:
    """A literal's text, with `word` for each computed part; nothing for an expression that is no literal."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        pieces = [str(value.value) if isinstance(value, ast.Constant) else term for value in value.values]
        return "".join(pieces)
    return ""


def test_every_reason_in_the_tests_is_listed() -> None:
    unlisted = [
        (file, texts[0])
        for file, texts in reasons()
        if texts[0] and not texts[0].startswith(skips.NOT_APPLICABLE) and not any(map(skips.lack_of, texts))
    ]
    assert unlisted == []


@pytest.mark.parametrize("lack", skips.LACKS, ids=lambda lack: lack.means)
def test_patterns_compile_and_say_how(lack: skips.Lack) -> None:
    assert re.compile(lack.pattern)
    assert lack.remedy
