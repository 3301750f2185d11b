"""The documentation site, built strictly and once for all processes of a session of tests."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 300


def documentation_site(factory: pytest.TempPathFactory) -> Path:
    """Return its directory. A page without a place in the menu and a link that leads nowhere fail the test."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # a fork's directory is below that of the session
        base = base.parent
    site, partial = base / "documentation-site", base / "documentation-site.partial"
    with (base / "documentation-site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.is_dir():
            _build(partial)
            partial.rename(site)
    return site


def _build(directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
