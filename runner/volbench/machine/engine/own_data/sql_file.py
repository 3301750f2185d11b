"""Loads a file of SQL, as mysqldump writes it, with the command line client."""

from __future__ import annotations

import os
from pathlib import Path

from volbench.machine.engine.own_data.form import decompressing_program, head_of, is_zip, zip_of_sql
from volbench.machine.engine.own_data.pipe import Loading, load_sql, opened, programs_of


def load_sql_file(loading: Loading, path: Path) -> None:
    """Read a file of SQL with the command line client: compressed, in an archive, in UTF-16, or as it is."""
    head = head_of(path)
    with opened(path) as source:
        size = path.stat().st_size or 1

        def read_share() -> float:
            return min(1.0, os.lseek(source.fileno(), 0, os.SEEK_CUR) / size)

        load_sql(
            loading,
            source,
            programs_of(decompressing_program(head)),
            doing=f"loading {path.name}",
            share=read_share,
            before=(lambda _chunks: zip_of_sql(source, path.name)) if is_zip(head) else iter,
        )
