"""Docker Compose v2 for tests: built once from its Go module, since Debian 12 has 1.29 and no registry is asked.

python tests/support/compose_v2.py      # builds it; needs Go and the module proxy, some minutes
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "v2.40.3"
MODULE = f"github.com/docker/compose/v2@{VERSION}"
CACHE = Path(os.environ.get("VOLBENCH_CACHE") or Path.home() / ".cache" / "volbench")
PROGRAM = CACHE / "compose" / VERSION / "docker-compose"
BUILD_BOUND_S = 3600.0


def compose_v2() -> Path | None:
    """The built one, else one of the machine that is v2; None without."""
    if PROGRAM.is_file():
        return PROGRAM
    for name in ("/usr/libexec/docker/cli-plugins/docker-compose", shutil.which("docker-compose") or ""):
        if name and Path(name).is_file() and _is_v2(name):
            return Path(name)
    return None


def build() -> Path:
    """Build it into the cache. Raises CalledProcessError, FileNotFoundError without Go."""
    if PROGRAM.is_file():
        return PROGRAM
    downloaded = subprocess.run(
        ["go", "mod", "download", "-json", MODULE], check=True, capture_output=True, text=True, cwd="/"
    )
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="volbench-compose-") as directory:
        source = Path(directory) / "source"
        shutil.copytree(json.loads(downloaded.stdout)["Dir"], source)
        subprocess.run(["chmod", "-R", "u+w", source], check=True)
        flags = f"-s -w -X github.com/docker/compose/v2/internal.Version={VERSION}"
        partial = PROGRAM.with_name("docker-compose.new")
        subprocess.run(
            ["go", "build", "-trimpath", "-ldflags", flags, "-o", partial, "./cmd"],
            check=True,
            cwd=source,
            env={**os.environ, "CGO_ENABLED": "0"},
            timeout=BUILD_BOUND_S,
        )
        partial.replace(PROGRAM)
    return PROGRAM


def _is_v2(program: str) -> bool:
    result = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
    return result.stdout.lstrip("v").startswith("2.")


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
