"""Command lines of the dump and load tools, for the versions of them that are about."""

from __future__ import annotations

import math
import subprocess
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import programs
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import ServerFacts
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.own_data.pipe import WITHOUT_COMMANDS
from volbench.measure.workload.process import require_tool, tool_version

_ALTERNATIVES = {"mysqldump": ("mysqldump", "mariadb-dump"), "mysql": ("mysql", "mariadb")}


@dataclass(frozen=True, kw_only=True)
class InstalledTool:
    """A tool as it is installed here."""

    path: str
    version: str

    @property
    def name(self) -> str:
        """What it is called."""
        return Path(self.path).name

    @property
    def of_mariadb(self) -> bool:
        """Whether it is MariaDB's build of the tool."""
        return "mariadb" in self.version.lower()


def installed(tool: str) -> InstalledTool:
    """Return the tool, or what MariaDB now calls it. Raises MissingPrerequisite."""
    names = _ALTERNATIVES.get(tool, (tool,))
    name = next((name for name in names if programs.find_program(name)), names[0])
    return InstalledTool(path=require_tool(name), version=tool_version(name))


def mysqldump_argv(tool: InstalledTool, option_file: Path, schema: str, server: ServerFacts) -> list[str]:
    """Return a consistent dump of one schema without locks, rows streamed.

    Names no schema, so it loads into any.
    """
    argv = [
        tool.path,
        f"--defaults-file={option_file}",
        "--single-transaction",
        "--quick",
        "--no-tablespaces",
        "--default-character-set=utf8mb4",
    ]
    if not tool.of_mariadb:
        argv.append("--set-gtid-purged=OFF")
        if server.flavor == "mariadb":
            argv.append("--column-statistics=0")
    return [*argv, schema]


def mydumper_argv(
    tool: InstalledTool, option_file: Path, dataset: DatasetSpec, *, threads: int, directory: Path
) -> list[str]:
    """Return a consistent dump by several threads; tables are split when there are more threads than tables."""
    offered = _help_of(tool)
    argv = [
        tool.path,
        f"--defaults-file={option_file}",
        f"--database={dataset.schema_name}",
        f"--outputdir={directory}",
        f"--threads={threads}",
        "--trx-tables" if "--trx-tables" in offered else "--trx-consistency-only",
    ]
    if threads > dataset.tables and not dataset.is_own:
        argv.append(f"--rows={math.ceil(dataset.rows * dataset.tables / threads)}")
    return argv


def mysql_argv(tool: InstalledTool, option_file: Path, schema: str) -> list[str]:
    """Return reads a dump from stdin into a schema."""
    return [
        tool.path,
        f"--defaults-file={option_file}",
        "--batch",
        "--default-character-set=utf8mb4",
        *WITHOUT_COMMANDS,
        f"--database={schema}",
    ]


def myloader_argv(
    tool: InstalledTool, option_file: Path, *, source: str, schema: str, threads: int, directory: Path
) -> list[str]:
    """Loads a mydumper directory into a schema, written to the binary log as any client's work is."""
    return [
        tool.path,
        f"--defaults-file={option_file}",
        f"--source-db={source}",
        f"--database={schema}",
        f"--directory={directory}",
        f"--threads={threads}",
        "--enable-binlog",
    ]


def _help_of(tool: InstalledTool) -> str:
    try:
        done = programs.run([tool.path, "--help"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired as error:
        raise MissingPrerequisite(f"{tool.path} --help gave no answer in 20 s") from error
    return done.stdout + done.stderr
