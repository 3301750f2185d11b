"""Tests whose means are missing are skipped with the reason, and fail where REQUIRE names the means."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def run_pytest(tmp_path: Path):
    """Runs pytest with our conftest on one test that needs a cluster, on a PATH without kubectl."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {TESTS / 'support'} {TESTS.parent / 'runner'}\n"
        "markers = kubernetes: needs a cluster\n"
    )
    (tmp_path / "test_cluster.py").write_text(
        "import pytest\n@pytest.mark.kubernetes\ndef test_cluster(): pass\ndef test_plain(): pass\n"
    )

    def run(require: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "REQUIRE": require, "PATH": str(tmp_path), "VOLBENCH_LAB_STATE": str(tmp_path)}
        command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def test_missing_means_skip_with_their_reason(run_pytest) -> None:
    done = run_pytest("")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    assert "no kubectl on PATH (mend: python3 tests/lab/kubernetes up)" in done.stdout


def test_required_means_that_are_missing_fail(run_pytest) -> None:
    done = run_pytest("kubernetes")
    assert done.returncode == 1
    assert "1 passed, 1 error" in done.stdout
    assert "no kubectl on PATH (mend: python3 tests/lab/kubernetes up)" in done.stdout


def test_required_means_fail_even_when_no_test_asks_for_them(run_pytest) -> None:
    done = run_pytest("kubernetes", "-k", "plain")
    assert done.returncode == 1
    assert "REQUIRE=kubernetes: needs kubernetes: no kubectl on PATH" in done.stdout


def test_unknown_word_in_require_is_a_usage_error(run_pytest) -> None:
    done = run_pytest("dokcer")
    assert done.returncode == 4
    assert "not dokcer" in done.stderr
