"""Compiles the library for its wheel, which is one for all versions of Python: it uses none of its functions."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libvolbench_lexer.so"


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """Runs cargo before the wheel is packed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the library to the wheel, whatever its version."""
        del version
        directory = Path(tempfile.mkdtemp(prefix="volbench-lexer-"))
        command = ["cargo", "build", "--release", "--locked", "--offline", "--quiet", f"--target-dir={directory}"]
        subprocess.run(command, cwd=self.root, check=True, timeout=600)
        package = directory / "volbench_lexer"
        package.mkdir()
        (package / "__init__.py").write_text('"""The SQL lexer of volbench: its library."""\n', encoding="ascii")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"].update(
            {
                str(package / "__init__.py"): "volbench_lexer/__init__.py",
                str(directory / "release" / LIBRARY): f"volbench_lexer/{LIBRARY}",
            }
        )
        build_data.update(pure_python=False, tag=f"py3-none-{platform}")
