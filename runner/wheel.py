"""Compiles the one file of a crate for its wheel, which serves all versions of Python: the file uses none of it.

A crate's pyproject.toml names the file and, for a library, the package that holds it; a program becomes a script of
the environment. CARGO_BUILD_TARGET chooses the platform, as cargo reads it; without it: this machine's.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """Runs cargo before the wheel is packed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the file to the wheel, whatever its version."""
        del version
        target = os.environ.get("CARGO_BUILD_TARGET", "")
        self._temporary = tempfile.TemporaryDirectory(prefix="volbench-wheel-")  # removed also when cargo fails
        directory = Path(self._temporary.name)
        command = ["cargo", "build", "--release", "--locked", "--quiet", f"--target-dir={directory}"]
        subprocess.run(command, cwd=self.root, check=True, timeout=1200)
        file = directory / target / "release" / self.config["file"]
        if "package" in self.config:
            package = self.config["package"]
            (directory / "__init__.py").write_text(f'"""{self.metadata.core.description}"""\n', encoding="utf-8")
            contents = {"__init__.py": directory / "__init__.py", file.name: file}
            build_data["force_include"].update({str(path): f"{package}/{name}" for name, path in contents.items()})
        else:
            build_data["shared_scripts"][str(file)] = file.name
        platform = f"linux-{target.partition('-')[0]}" if target else sysconfig.get_platform()
        tag = platform.replace("-", "_").replace(".", "_")
        build_data.update(pure_python=False, tag=f"py3-none-{tag}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, once it is packed."""
        del version, build_data, artifact_path
        self._temporary.cleanup()
