"""Loads a file of SQL, as mysqldump writes it, with the command line client."""

from __future__ import annotations

import os
from pathlib import Path

from volbench.machine.engine.own_data.pipe import Loading, decompressor, load_sql, opened


def load_sql_file(loading: Loading, path: Path) -> None:
    """Read a file of SQL, compressed or not, with the command line client."""
    with opened(path) as source:
        size = path.stat().st_size or 1

        def read_share() -> float:
            return min(1.0, os.lseek(source.fileno(), 0, os.SEEK_CUR) / size)

        load_sql(loading, source, decompressor(path), what=f"loading {path.name}", share=read_share)
