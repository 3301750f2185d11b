"""What contributors rely on is there and true: licence, guides, hooks, the form of the changelog."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 400


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
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\]( - \d{4}-\d\d-\d\d)?", version) for version in versions[1:])
    groups = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_hooks_are_local_and_their_programs_are_installed_with_the_project() -> None:
    config = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        program = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert program in {"ruff", "mypy", "lint-imports", "python"}


def test_the_bug_report_asks_for_version_machine_and_log() -> None:
    text = (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()
    assert all(word in text for word in ("volbench --version", "volbench doctor", "VOLBENCH_LOG"))
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
