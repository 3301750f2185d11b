"""What `git blame` passes over are commits of this repository that move files."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / ".git-blame-ignore-revs"
MOVED_MIN = 0.25
"""Of the files that a commit touches; the others are the modules that import the moved ones."""
SIMILARITY_MIN = 90
"""Percent of a moved file, in the middle, that is unchanged."""


@dataclass(frozen=True, kw_only=True)
class ListedCommit:
    """A line of the list with the comment above it."""

    revision: str
    comment: str


def listed(text: str) -> list[ListedCommit]:
    """Return the commits of a list; a line that is neither a comment nor a full hash is an error."""
    lines = text.splitlines()
    revisions = [(number, line) for number, line in enumerate(lines) if not line.startswith("#")]
    assert [line for _, line in revisions if not re.fullmatch(r"[0-9a-f]{40}", line)] == []
    return [ListedCommit(revision=line, comment=lines[number - 1]) for number, line in revisions]


def git(*arguments: str) -> str:
    command = ["git", "-c", "diff.renameLimit=0", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout


COMMITS = listed(LIST.read_text())


@pytest.fixture(scope="module")
def history() -> None:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the clone is shallow")


def test_the_list_names_each_commit_once() -> None:
    assert len({commit.revision for commit in COMMITS}) == len(COMMITS) > 1


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("commit", COMMITS, ids=lambda commit: commit.revision[:10])
def test_a_listed_commit_moves_files(commit: ListedCommit) -> None:
    git("merge-base", "--is-ancestor", commit.revision, "HEAD")
    assert commit.comment == git("show", "-s", "--format=# %as %s", commit.revision).strip()
    changes = git("show", "--find-renames", "--name-status", "--format=", commit.revision).splitlines()
    similarities = sorted(int(change[1:4]) for change in changes if change.startswith("R"))
    assert len(similarities) >= MOVED_MIN * len(changes)
    assert similarities[len(similarities) // 2] >= SIMILARITY_MIN


@pytest.mark.usefixtures("history")
def test_git_blame_understands_the_list() -> None:
    assert git("blame", "--ignore-revs-file", str(LIST), "-L1,1", "README.md")


def test_a_line_that_is_no_full_hash_is_refused() -> None:
    with pytest.raises(AssertionError):
        listed("# 2026-11-22 Divide report\n3744e96dc5\n")
