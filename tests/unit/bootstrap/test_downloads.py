"""What the set-up, the images and a release bring from outside: compared with a hash or a signature, each of it."""

from __future__ import annotations

import ast
import filecmp
import hashlib
import re
import shutil
from pathlib import Path

import pytest

from bootstrap import emulator, environment, images, lexer, posix_suites
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.errors import Refused
from volbench.machine.placement import capabilities

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "runner" / "bootstrap").glob("*.py"))
RECIPES = [
    *sorted((ROOT / "docker").glob("**/Dockerfile")),
    *sorted((ROOT / "docker").glob("**/*.sh")),
    *sorted((ROOT / ".github").glob("**/*.yml")),
    *sorted((ROOT / ".github").glob("**/*.sh")),
    ROOT / "Makefile",
    ROOT / "action.yml",
]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the set-up would run; nothing is run."""
    commands: list[list[str]] = []
    for module in (environment, emulator, lexer, posix_suites, images):
        monkeypatch.setattr(module, "run", lambda argv, **_: commands.append([str(argument) for argument in argv]))
    present = capabilities.Means(name="x", present=True, evidence="pretended")
    monkeypatch.setattr(capabilities, "find_program", lambda _: present)
    monkeypatch.setattr(posix_suites, "check_archives", lambda *_: None)
    monkeypatch.setattr(shutil, "copy2", lambda _, target: Path(target).touch())
    monkeypatch.setattr(filecmp, "cmp", lambda *_, **__: True)
    return commands


def test_each_command_that_brings_something_compares_it(started: list[list[str]], tmp_path: Path) -> None:
    """Packages by the lock files' hashes, crates by Cargo.lock; the checkout itself is installed offline."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "runner" / "lexer", root / "runner" / "lexer", ignore=shutil.ignore_patterns("target"))
    shutil.copytree(ROOT / "runner" / "emulator", root / "runner" / "emulator")
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copyfile(ROOT / name, root / name)
    (root / ".venv").mkdir()
    directories = Directories(root=root, state=tmp_path / "state", cache=tmp_path / "cache")
    console = Console(yes=True)
    environment.ensure_environment(directories, console, development=True)
    environment.install_for("3.13", tmp_path / "site", directories, tmp_path / "log")
    emulator.ensure_emulator(directories, console)
    lexer.ensure_lexer(directories, console)
    posix_suites.ensure_posix_suites(directories, console)
    installs = [arguments for arguments in started if "install" in arguments and "cargo" not in arguments]
    compared = [arguments for arguments in installs if "--require-hashes" in arguments]
    (own,) = [arguments for arguments in installs if arguments not in compared]
    assert {"--offline", "--no-build-isolation", "--no-deps"} <= set(own)
    assert len(compared) >= 3
    assert all("--no-deps" in arguments for arguments in compared)
    builds = [
        arguments for arguments in started if arguments[0] == "cargo" and arguments[1] in ("build", "install")
    ]
    assert len(builds) == 3
    assert all("--locked" in arguments for arguments in builds)
    (fetch,) = [arguments for arguments in started if arguments[:2] == ["cargo", "fetch"]]
    assert started.index(fetch) < started.index(
        next(arguments for arguments in builds if arguments[1] == "install")
    )
    known_values = ("venv", "install", "build", "fetch")
    assert [arguments for arguments in started if not set(known_values) & set(arguments)] == []


def test_the_set_up_fetches_nothing_by_itself() -> None:
    """No module for requests is imported: pip, uv, cargo, apt, debootstrap and docker do it, which compare."""
    for path in SCRIPTS:
        imported = {
            name.name if isinstance(node, ast.Import) else str(node.module)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        assert not {name for name in imported if name.startswith(("urllib", "http", "requests", "socket"))}, (
            path.name
        )


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
def test_recipes_compare_what_they_bring(path: Path) -> None:
    text = path.read_text().replace("\\\n", " ")
    assert not re.search(r"\b(curl|wget)\b|^ADD\s+http|\bnpm install\b", text, re.MULTILINE)
    for line in text.splitlines():
        if re.search(r"\bpip3? install\b|-m pip install\b", line):
            assert "--require-hashes" in line
        if re.search(r"\bcargo (build|install)\b", line):
            assert "--locked" in line
        assert not re.search(r"\bgo (install|run)\b", line)
        assert not re.search(
            r"apt-get.*(--allow-unauthenticated|--force-yes)|AllowUnauthenticated|trusted=yes", line
        )


def test_lock_files_have_a_hash_for_each_package() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "runner/bootstrap/requirements-uv.lock"):
        blocks = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / name).read_text().strip())
        assert len(blocks) > 0
        assert [
            block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block or "==" not in block
        ] == []


def test_only_the_archive_that_was_looked_at_is_compiled(tmp_path: Path) -> None:
    archive = tmp_path / "registry" / "cache" / "index" / "fsx-0.3.2.crate"
    good = hashlib.sha256(b"crate").hexdigest()
    with pytest.raises(Refused, match="SHA-256 of no archive"):
        posix_suites.check_archives(tmp_path, "fsx@0.3.2", good)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"crate")
    posix_suites.check_archives(tmp_path, "fsx@0.3.2", good)
    archive.write_bytes(b"crate, with something added")
    with pytest.raises(Refused, match="is not the archive that was looked at"):
        posix_suites.check_archives(tmp_path, "fsx@0.3.2", good)
