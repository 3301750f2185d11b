"""`volbench sealed`: keys for what is kept unreadable, and reading it again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console
from volbench.engine.connection import write_private
from volbench.errors import Refused, UsageError
from volbench.store import sealed as store

app = typer.Typer(help="Keys for sealed files, and reading them.", no_args_is_help=True)


@app.command("new-key")
def new_key(
    file: Annotated[Path, typer.Argument(help="The file to write, mode 0600; never overwritten.")],
) -> None:
    """Make a key; keep it away from what it seals."""
    if file.exists():
        raise Refused("the file is there already", where="FILE", evidence=str(file), next_step="name another one")
    write_private(file, store.new_key() + "\n")
    console.say(f"key: {file}; set {store.KEY_FILE} to it")


@app.command("open")
def open_(file: Annotated[Path, typer.Argument(help="A sealed report or capture.")]) -> None:
    """Print what is in a sealed file; it is not written anywhere."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError("the file cannot be read", where=str(file), evidence=str(error)) from error
    sys.stdout.buffer.write(store.opened(content, store.key_from(os.environ), where=str(file)))
