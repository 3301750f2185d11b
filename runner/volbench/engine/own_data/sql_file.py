"""Loads a file of SQL, as mysqldump writes it, with the command line client."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path

from volbench.engine.connection import MemoryFile
from volbench.engine.own_data.pipe import (
    Loading,
    client_argv,
    decompress_argv,
    first_bytes,
    opened,
    run_pipe,
)

_SANDBOX_MARK = b"/*M!999999\\- "
"""MariaDB's dumps begin with a command for its own client, which the client does not know in binary mode."""
_SKIP_LINE = ["tail", "-n", "+2"]


def load_sql_file(loading: Loading, path: Path) -> None:
    """Read a file of SQL, compressed or not, with the command line client."""
    with ExitStack() as stack:
        source = stack.enter_context(opened(path))
        options = stack.enter_context(closing(MemoryFile(loading.account.option_file_text())))
        client = client_argv(options.path, loading.dataset.schema_name)
        unpack = decompress_argv(path)
        commands = [
            *([unpack] if unpack else []),
            *([_SKIP_LINE] if first_bytes(path, len(_SANDBOX_MARK)) == _SANDBOX_MARK else []),
            client,
        ]
        size = path.stat().st_size or 1

        def read_share() -> float:
            return min(1.0, os.lseek(source.fileno(), 0, os.SEEK_CUR) / size)

        run_pipe(commands, loading, source=source, share=read_share, what=f"loading {path.name}")
