"""A release is refused while the repository's address is a placeholder, or a news fragment is left."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from release import __main__ as command
from release import placeholders
from volbench.errors import UsageError

ROOT = Path(__file__).parents[3]
ADDRESS = "https://git.example/people/volbench"


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """This source with an address, and without news fragments."""
    (tmp_path / "docs" / "changes").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "changes" / "README.md", tmp_path / "docs" / "changes")
    names = {placeholder_line.rpartition(":")[0] for placeholder_line in placeholders.placeholder_lines(ROOT)} | {
        "README.md",
        "pyproject.toml",
    }
    for name in names:
        text = (ROOT / name).read_text()
        text = text.replace("https://example.invalid/OWNER/volbench", ADDRESS).replace(
            "OWNER/volbench", "people/volbench"
        )
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_settled_source_may_be_released(settled: Path) -> None:
    placeholders.refuse_unsettled(settled)


@pytest.mark.parametrize("name", ["README.md", "pyproject.toml", "docs/install.md", "Makefile", "docs/history.md"])
def test_one_placeholder_is_refused_by_file_and_line(settled: Path, name: str) -> None:
    path = settled / name
    text = path.read_text() if path.exists() else ""
    path.write_text(text + "https://example.invalid/OWNER/volbench\n")
    with pytest.raises(UsageError, match=re.escape(f"{name}:{len(text.splitlines()) + 1}")):
        placeholders.refuse_unsettled(settled)


def test_everything_unsettled_is_in_one_message(settled: Path) -> None:
    (settled / "docs" / "changes" / "speed.fixed.md").write_text("Faster.\n")
    (settled / "README.md").write_text("git clone https://example.invalid/OWNER/volbench\n")
    with pytest.raises(UsageError) as refused:
        placeholders.refuse_unsettled(settled)
    assert "README.md:1" in str(refused.value)
    assert "speed.fixed.md" in str(refused.value)
    assert "towncrier build" in str(refused.value)


def test_the_manifest_and_the_readme_have_one_address() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    cloned = re.findall(r"^git clone (\S+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert cloned == [urls["Source"]]
    assert all(url.startswith(urls["Source"]) for url in urls.values())


def test_make_refuses_before_it_builds(
    settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (settled / "README.md").write_text("git clone https://example.invalid/OWNER/volbench\n")
    monkeypatch.setattr(command, "ROOT", settled)
    assert command.main(["make", str(tmp_path / "out")]) == UsageError.exit_code
    assert "README.md:1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_workflow_asks_before_it_builds() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert text.index("release.placeholders") < text.index("make release-check")
