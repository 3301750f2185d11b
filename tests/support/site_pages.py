"""A hook of mkdocs: pages are files of the repository at their own places, and references made of the code.

The same links then work in the repository and on the site. A link to a file that is no page copies the file where a
browser can show it, and is plain text otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.testing import CliRunner

from volbench.cli.main import HIDDEN, app
from volbench.core.profile.spec import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/questions/*.md",
    "suites/**/*.md",
    "results/README.md",
    "results/examples/**/*.md",
    "docker/**/*.md",
    "k8s/*.md",
    "runner/*.md",
    "runner/emulator/*.md",
    "tests/README.md",
    "tests/lab/*/README.md",
)
DISPLAYED = {".html", ".ipynb", ".json", ".png", ".svg", ".yaml", ".xz", ""}
"""Suffixes of files that a browser shows, or saves; LICENSE has none."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
_LIST = re.compile(r"(?:[-*]|\d+\.) ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the theme's files with those of the repository, in place of those below `docs_dir`."""
    chosen = [file for file in files if file.src_dir != config.docs_dir]
    pages = {path.relative_to(ROOT).as_posix() for pattern in PAGES for path in ROOT.glob(pattern)}
    pages = {page for page in pages if "node_modules" not in page and "/target/" not in page}
    linked = {link for page in pages for link in _links(page) if link not in pages and _is_shown(link)}
    shared = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("results/examples/assets/*")}
    own = (
        File(page, str(ROOT), config.site_dir, config.use_directory_urls)
        for page in sorted(pages | linked | shared | {str(location) for location in config.extra_css})
    )
    made = (File.generated(config, f"reference/{name}.md", content=text) for name, text in references().items())
    return Files([*chosen, *own, *made])


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Return a page as mkdocs reads it: an empty line before lists and tables, every link leads somewhere."""

    def link(match: re.Match[str]) -> str:
        picture, text, location, anchor = match[1], match[2], match[3], match[4] or ""
        target = _target(page.file.src_uri, location)
        if (ROOT / target).is_dir():
            location, target = f"{location.rstrip('/')}/README.md", f"{target}/README.md"
        return f"{picture}[{text}]({location}{anchor})" if files.get_file_from_path(target) else text

    return "\n".join(
        line if is_code else _LINK.sub(link, line) for line, is_code in _with_empty_lines(markdown.splitlines())
    )


def references() -> dict[str, str]:
    """Return the generated pages by name: commands with their options, SPECs with the figures of profiles."""
    return {"commands": _commands(), "volumes": _volumes()}


def _commands() -> str:
    lines = ["# Commands", "", "Each command as `--help` prints it.", ""]
    for name in typer.main.get_command(app).list_commands(None):  # type: ignore[attr-defined]
        if name not in HIDDEN:
            lines += _command([name])
    return "\n".join(lines)


def _command(arguments: list[str]) -> Iterator[str]:
    text = _output([*arguments, "--help"])
    yield from (
        f"{'#' * (1 + len(arguments))} volbench {' '.join(arguments)}",
        "",
        "```text",
        text.rstrip(),
        "```",
        "",
    )
    listed = text.partition("\nCommands:\n")[2]
    for name in re.findall(r"^  ([\w-]+) ", listed, re.MULTILINE):
        yield from _command([*arguments, name])


def _volumes() -> str:
    rows = [f"| `{name}` | `{kind.example}` | {_options(kind.options)} |" for name, kind in KINDS.items()]
    profiles = re.findall(r"^  ([\w-]+): ", _output(["volume", "list"]).partition("\nEmulated")[0], re.MULTILINE)
    lines = ["# SPECs and profiles", "", "| kind | example | options |", "|---|---|---|", *rows, ""]
    for profile in profiles:
        lines += [f"## {profile}", "", "```text", _output(["volume", "show", profile]).rstrip(), "```", ""]
    return "\n".join(lines)


def _options(options: Iterable[str] | None) -> str:
    if options is None:
        return "those of its profile, below"
    return ", ".join(f"`{option}`" for option in options) or "none"


def _output(arguments: list[str]) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})
    if done.exit_code != 0:
        raise RuntimeError(f"volbench {' '.join(arguments)}: exit code {done.exit_code}")
    return done.stdout


def _links(page: str) -> Iterator[str]:
    for line, is_code in _with_empty_lines((ROOT / page).read_text(encoding="utf-8").splitlines()):
        if not is_code:
            yield from (_target(page, match[3]) for match in _LINK.finditer(line))


def _target(page: str, location: str) -> str:
    return normpath(str(PurePosixPath(page).parent / location))


def _is_shown(location: str) -> bool:
    path = ROOT / location
    return path.is_file() and path.suffix in DISPLAYED and not location.startswith((".", "../"))


def _with_empty_lines(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is of a code block; GitHub needs no empty line before a list, mkdocs does."""
    before, in_code = "", False
    for line in lines:
        fence = line.startswith("```")
        starts = not in_code and (
            (_LIST.match(line) and not _LIST.match(before) and not before.startswith(" "))
            or (line.startswith("|") and not before.startswith("|"))
            or (fence and not before.startswith("|"))
        )
        if starts and before.strip():
            yield "", False
        in_code ^= fence
        yield line, in_code or fence
        before = line
