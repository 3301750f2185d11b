"""`volbench compose`: a compose file for any number of volumes."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import Annotated

import typer
from ruamel.yaml import YAML

from volbench.cli import console, options
from volbench.errors import UsageError
from volbench.machine.placement.docker.compose import compose_document


def compose(
    volume: Annotated[
        list[str],
        typer.Option("--volume", metavar="NAME=DIRECTORY", help="A volume's name and directory; repeat it."),
    ],
    suite: Annotated[str, typer.Option("--suite", help="A shipped suite, such as compare.yaml.")] = "quick.yaml",
    json: options.Json = False,
) -> None:
    """Print a compose file that runs a suite on these volumes: docker/README.md says how."""
    directories: dict[str, str] = {}
    for text in volume:
        name, separator, directory = text.partition("=")
        if not separator or name in directories:
            raise UsageError(f"{text!r} is not NAME=DIRECTORY with a new name", where="compose")
        directories[name] = directory
    document = compose_document(directories, suite=suite)
    if json:
        console.show_json(document)
        return
    printer = YAML()
    printer.default_flow_style = False
    printer.width = 1000
    printer.dump(jsonlib.loads(jsonlib.dumps(document)), sys.stdout)  # copied, so that nothing becomes an alias
