"""What contributors rely on is there and true: licence, guides, hooks, the form of the changelog."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import volbench

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 475


def test_the_licence_is_that_of_the_manifests() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text
    manifests = [
        ROOT / "pyproject.toml",
        ROOT / "runner/emulator/pyproject.toml",
        ROOT / "runner/emulator/Cargo.toml",
    ]
    for manifest in manifests:
        data = tomllib.loads(manifest.read_text())
        assert "Apache-2.0" in str((data.get("project") or data["package"])["license"]), manifest


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\]( - \d{4}-\d\d-\d\d)?", version) for version in versions)
    assert versions == sorted(versions, key=_numbers, reverse=True)
    assert text.count("<!-- towncrier release notes start -->") == 1
    since = text[: text.index("## [0.2.0]")]
    groups = set(re.findall(r"^### (.*)$", since, re.MULTILINE))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def test_each_change_that_is_not_released_has_a_kind_and_a_short_text() -> None:
    """The program that assembles them passes over a file whose name has another form."""
    kinds = {kind["directory"] for kind in _pyproject()["tool"]["towncrier"]["type"]}
    for path in (ROOT / "docs/changes").iterdir():
        if path.name in {"README.md", "template.md.jinja"}:
            continue
        fragment = re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\.([a-z]+)\.md", path.name)
        assert fragment is not None, path.name
        assert fragment[2] in kinds, path.name
        assert 10 < len(path.read_text().strip()) <= 400, path.name


def test_every_file_names_the_version_of_the_package() -> None:
    """Images, the chart, the plugin and the emulator are of one release."""
    version = volbench.__version__
    assert _pyproject()["tool"]["hatch"]["version"]["path"] == "runner/volbench/__init__.py"
    pattern = re.compile(
        r"(?:volbench(?:\.invalid)?[/-](?:tools|server|volume):|newTag: |^(?:appVersion|version): |^  tag: "
        r"|version: v|^version = \")(\d+\.\d+\.\d+)",
        re.MULTILINE,
    )
    files = [*_tracked("k8s", "docker", "docs", "Makefile", "README.md"), ROOT / "runner/emulator/Cargo.toml"]
    named = {
        str(path.relative_to(ROOT)): set(pattern.findall(path.read_text()))
        for path in files
        if path.suffix in {".md", ".yaml", ".toml", ""} and path.is_file()
    }
    remaining = {name: versions - {version} for name, versions in named.items() if versions - {version}}
    assert remaining == {}
    assert {"k8s/chart/Chart.yaml", "docker/compose.yaml", "runner/emulator/Cargo.toml", "Makefile"} <= {
        name for name, versions in named.items() if versions
    }


def _tracked(*paths: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in names.stdout.splitlines()]


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_hooks_are_local_and_their_programs_are_installed_with_the_project() -> None:
    config = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        program = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert program in {"ruff", "mypy", "lint-imports", "python"}


def test_the_bug_report_asks_for_version_machine_and_log() -> None:
    text = (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()
    assert all(phrase in text for phrase in ("volbench --version", "volbench doctor", "VOLBENCH_LOG"))
    assert YAML(typ="safe").load(text)["body"]


def test_every_target_of_make_is_listed_by_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    for target in targets[1].split():
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target


def test_every_marker_is_explained() -> None:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    page = (ROOT / "tests/README.md").read_text()
    assert [name for name in (marker.partition(":")[0] for marker in markers) if f"| `{name}` |" not in page] == []


def test_no_file_is_longer_than_a_reader_can_keep_in_mind() -> None:
    """One that grows beyond the limit has two concepts: the second one gets a module of its own."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    paths = [path for name in tracked.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    assert len(paths) > 500
    lines = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in paths}
    assert {name: count for name, count in lines.items() if count > LINES_MAX} == {}


def test_few_lines_are_exempt_from_a_rule_or_from_their_form() -> None:
    """Where a whole directory has one reason, pyproject.toml says it once."""
    counts = {
        (directory, mark): sum(path.read_text().count(mark) for path in sorted((ROOT / directory).rglob("*.py")))
        for directory in ("runner", "tests")
        for mark in ("# noqa", "fmt: " + "skip")
    }
    assert counts["runner", "# noqa"] <= 126
    assert counts["tests", "# noqa"] <= 212
    assert counts["runner", "fmt: skip"] + counts["tests", "fmt: skip"] <= 20


def test_an_assert_of_the_product_tells_that_a_value_is_there() -> None:
    """What may fail is checked by an error with a message; an assert is for mypy alone."""
    others = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.test)}"
        for path in sorted((ROOT / "runner/volbench").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and not ast.unparse(node.test).endswith(" is not None")
    ]
    assert others == []


def test_a_text_with_a_call_in_braces_is_formatted() -> None:
    """A wrapped text may lose the f of one of its lines: its reader gets the name of a function for a number.

    Looked at are texts of the product that Python joins: a call in braces stands in none of them, and a name in
    braces in none that is formatted already.
    """
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted((ROOT / "runner").rglob("*.py"))
        for line, text, is_formatted in _texts(ast.parse(path.read_text()))
        if re.search(r"\{[a-z_][a-z_.]*(\(|[}:!])" if is_formatted else r"\{[a-z_][a-z_.]*\([^{]*\)\}", text)
    ]
    assert not faults


def _texts(module: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Texts of a module with their lines, and whether each is a part of one that is formatted."""
    ids = {
        id(piece) for joined in ast.walk(module) if isinstance(joined, ast.JoinedStr) for piece in ast.walk(joined)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, id(node) in ids


def test_no_docstring_has_the_marks_of_a_wrapped_text() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for folder in ("runner", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "fixtures" not in path.parts
        if re.search(r'"(\n|\\n)\s*"', text := path.read_text())  # else none has them; parsing all takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        if re.search(r'"\n\s*"', ast.get_docstring(node, clean=False) or "")
    ]
    assert not faults


SIGNIFICANT_DIGITS = re.compile(r"[+,]*\.[1-5]g")
SMALL_OR_DRAWN = re.compile(r"p_value|q_value|p_adjusted|smallest|errors_max|confidence|rho|\bx\b|\by\b|_SIDE")
"""Numbers that are below 1, and coordinates of pictures."""
MAY_WRITE_DIGITS = frozenset(
    {
        "core/base/text.py",
        "results/explain/wording.py",
        "results/gate/metrics.py",
        "cli/volumes/text.py",
        "results/report/views/timeline.py",
        "results/report/views/cost_tables.py",
    }
)
"""What writes numbers for all others, or rounds them before another function writes them."""


def test_no_sentence_can_write_a_power_of_ten() -> None:
    """`{value:.3g}` writes 1620 as 1.62e+03: a reader of a report took it for a fault."""
    root = ROOT / "runner/volbench"
    faults = [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node.value)}"
        for path in sorted(root.rglob("*.py"))
        if str(path.relative_to(root)) not in MAY_WRITE_DIGITS
        if re.search(r":[+,]*\.[1-5]g", text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None
        if SIGNIFICANT_DIGITS.fullmatch(ast.unparse(node.format_spec).strip("f'\""))
        if not SMALL_OR_DRAWN.search(ast.unparse(node.value))
    ]
    assert faults == []
