"""The lexer's library: missing or of another version it says what to do; no text makes it fail or takes long."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bootstrap import lexer
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.core.sql import library
from volbench.core.sql.fingerprint import fingerprint
from volbench.core.sql.guard import Allowed, judge
from volbench.core.sql.tokens import Dialect, Tokens, is_closed
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

PIECES = [
    *(
        "select ",
        "'",
        '"',
        "`",
        "\\",
        "/*",
        "*/",
        "/*!",
        "/*!50000",
        "/*M!",
        "/*+",
        "-- ",
        "--",
        "#",
        "\n",
        ";",
        "(",
    ),
    *(
        ")",
        "\0",
        "$$",
        "$a$",
        "@",
        "@@",
        ".",
        "1e",
        "0x",
        "x'",
        "b'",
        "n'",
        "_utf8",
        "é",
        "\u00a0",
        "into",
        "values",
    ),
    *("in", ",", "1", "a", ":=", "\udcff", "{"),
]


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    library._library.cache_clear()
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    monkeypatch.setattr(library, "_PACKAGE", "volbench_lexer_that_is_not_there")
    return tmp_path


def test_a_missing_library_is_a_lack_with_what_to_do(no_library: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="make lexer"):
        fingerprint("SELECT 1")
    library._library.cache_clear()


def test_a_file_that_is_no_library_is_a_lack(no_library: Path) -> None:
    (no_library / "libvolbench_lexer.so").write_bytes(b"no library")
    with pytest.raises(MissingPrerequisite, match="not there"):
        judge("SELECT 1")
    library._library.cache_clear()


def test_an_installed_volbench_takes_the_library_of_the_distribution(
    no_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel of runner/lexer: built with its backend, unpacked, found by its name."""
    pytest.importorskip("hatchling", reason="the build backend hatchling is not in this environment")
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo: the wheel is compiled")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(no_library / "dist")],
        cwd=Path(__file__).parents[4] / "runner/lexer",
        check=True,
        capture_output=True,
        timeout=600,
    )
    (wheel,) = (no_library / "dist").glob("volbench_lexer-*-py3-none-linux_*.whl")
    zipfile.ZipFile(wheel).extractall(no_library / "site")
    monkeypatch.syspath_prepend(str(no_library / "site"))
    monkeypatch.setattr(library, "_PACKAGE", "volbench_lexer")
    assert fingerprint("SELECT 1") == "select ?"
    library._library.cache_clear()


def test_a_library_of_another_version_is_a_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    library._library.cache_clear()
    monkeypatch.setattr(library, "ABI", library.ABI + 1)
    with pytest.raises(MissingPrerequisite, match="another version"):
        fingerprint("SELECT 1")
    library._library.cache_clear()


def test_the_set_up_compiles_the_sources_once_and_puts_the_library_into_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[4]
    for name in lexer.SOURCES:
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).symlink_to(root / name)
    directories = Directories(root=tmp_path / "root", state=tmp_path / "state", cache=tmp_path / "cache")

    def compile_into(argv: list[str], **_: object) -> None:
        (target,) = (Path(argument.partition("=")[2]) for argument in argv if argument.startswith("--target-dir="))
        (target / "release").mkdir(parents=True)
        (target / "release" / lexer.LIBRARY).write_bytes(b"compiled")

    monkeypatch.setattr(capabilities, "find_program", lambda _: SimpleNamespace(present=True))
    monkeypatch.setattr(lexer, "run", compile_into)
    placed = lexer.ensure_lexer(directories, Console(yes=True))
    assert placed == directories.root / "runner/volbench/core/sql" / lexer.LIBRARY
    assert placed.read_bytes() == b"compiled"
    placed.write_bytes(b"of older sources")
    monkeypatch.setattr(lexer, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert lexer.ensure_lexer(directories, Console(yes=True)).read_bytes() == b"compiled"


@settings(max_examples=1500)
@given(some.lists(some.sampled_from(PIECES), max_size=25).map("".join))
def test_no_text_makes_it_fail(text: str) -> None:
    """And tokens cover the text in order, the same in pieces of any size."""
    fingerprint(text)
    for allowed in Allowed:
        judge(text, allowed)
    sql = library.as_bytes(text)
    for dialect in (Dialect(), Dialect(ansi_quotes=True), Dialect(no_escapes=True)):
        before = 0
        for _, start, end, _ in Tokens(sql, dialect):
            assert before <= start < end <= len(sql)
            before = end


@settings(max_examples=300)
@given(some.binary(max_size=60), some.integers(0, 23))
def test_no_bytes_make_it_fail_in_any_dialect(sql: bytes, dialect: int) -> None:
    library.fingerprint_of(sql, dialect)
    library.is_closed(sql, dialect)
    library.judged(sql, 2)
    assert all(start < end <= len(sql) for _, start, end, _ in library.TokenReader(sql, dialect).read())


def test_tokens_do_not_depend_on_where_a_piece_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(4)
    for _ in range(300):
        sql = library.as_bytes("".join(chosen.choices(PIECES, k=40)))
        monkeypatch.setattr(library, "_SPANS", 4096)
        tokens = list(Tokens(sql))
        monkeypatch.setattr(library, "_SPANS", 3)
        assert list(Tokens(sql)) == tokens


REPEATED = [
    "$a{0}$ ",
    "/*",
    "/* */",
    "(",
    "f(a,",
    "'",
    '"\\',
    "`",
    "values (1),",
    "select /*+ x */ ",
    "x (a, ",
    "; ",
    "@",
    "in (1) ",
]


@pytest.mark.parametrize("piece", REPEATED)
def test_time_is_linear_in_the_length(piece: str) -> None:
    """Sixteen times the length takes far less than the square of it: 256 times."""

    def seconds(count: int) -> float:
        text = "select " + "".join(piece.format(number) for number in range(count))
        begin = time.process_time()
        fingerprint(text)
        judge(text, Allowed.REPLAY)
        judge(text)
        is_closed(text)
        return time.process_time() - begin

    seconds(2000)
    assert seconds(32_000) < 100 * max(seconds(2000), 0.0005)
