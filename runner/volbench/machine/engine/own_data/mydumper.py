"""Loads one schema of a directory of mydumper, of any version, with the command line client.

Not with myloader: it would need rights on the whole server for what a dump's triggers, views and routines name as
their definers, and Debian's reads no zstd. Layout: `SCHEMA.TABLE-schema.sql`, `SCHEMA.TABLE.00000.sql` of its rows,
`-schema-view.sql`, `-schema-triggers.sql`, and `SCHEMA-schema-post.sql` of routines and events, all of them perhaps
compressed. Source: mydumper's docs/files.rst; dumps of 0.10 and 1.0.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from volbench.errors import UsageError
from volbench.machine.engine.own_data.pipe import Loading, decompressor, load_sql, opened, regular_names
from volbench.machine.engine.own_data.sql_file import load_sql_file

_FILE = re.compile(r"(?P<stem>.+)\.sql(\.(gz|zst))?")
_SCHEMA_FILE = re.compile(r"(?P<schema>.+)-schema-create\.sql(\.\w+)?")
_TABLE_FILE = re.compile(r"(?P<schema>[^.]+)\..+-schema\.sql(\.\w+)?")
_KINDS = ("-schema-create", "-schema-sequence", "-schema", "", "-schema-post", "-schema-triggers", "-schema-view")
"""Ends of the files' names, in the order in which they are loaded; the empty one is of rows."""
_OF_PROGRAMS = ("-schema-post", "-schema-triggers")
_PROGRAM_BYTES_MAX = 64 << 20
_DELIMITER = b"$mydumper$"
_OWN_DELIMITER = re.compile(rb"^[ \t]*delimiter[ \t]", re.IGNORECASE | re.MULTILINE)


def load_mydumper(loading: Loading, path: Path) -> None:
    """Load one schema of the dump into the dataset's schema, rows with the dataset's number of threads.

    Raises UsageError if the dump has several schemas and none of them is the dataset's, MissingPrerequisite without
    the program that decompresses it, StepFailed if a statement fails.
    """
    names = regular_names(path)
    schema = source_schema(sorted(names), loading.dataset.schema_name)
    files = dump_files(names, schema)
    sizes = {name: (path / name).stat().st_size for of_kind in files.values() for name in of_kind}
    for kind in _KINDS[1:]:
        if kind == "":
            _load_rows(loading, path, files[kind], sizes)
        elif kind in _OF_PROGRAMS:
            for name in files[kind]:
                _load_programs(loading, path / name)
        else:
            for name in files[kind]:
                load_sql_file(loading, path / name)


def dump_files(names: frozenset[str], schema: str) -> dict[str, list[str]]:
    """Return the files of a schema by their kind, in order. Raises UsageError for rows in another form than SQL."""
    files: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for name in sorted(names):
        if not name.startswith((f"{schema}.", f"{schema}-schema")):
            continue
        match = _FILE.fullmatch(name)
        if match is not None:
            kind = next((kind for kind in _KINDS if kind and match["stem"].endswith(kind)), "")
            files[kind].append(name)
        elif not name.endswith(("-metadata", ".checksum", "-checksum")) and "-schema-checksum" not in name:
            raise UsageError(
                "the dump has rows in files that are no SQL",
                where="dataset.path",
                evidence=name,
                next_step="dump with mydumper's default format, compressed with gzip or zstd",
            )
    return files


def source_schema(names: list[str], schema: str) -> str:
    """Return the schema of the dump to load: the wanted one, else the only one. Raises UsageError."""
    matches = [_SCHEMA_FILE.fullmatch(name) or _TABLE_FILE.fullmatch(name) for name in names]
    schemas = sorted({match["schema"] for match in matches if match})
    if schema in schemas:
        return schema
    if len(schemas) == 1:
        return schemas[0]
    raise UsageError(
        f"the dump has no schema {schema}",
        where="dataset.schema",
        evidence=f"its schemas are {', '.join(schemas) or 'none'}",
        next_step="set dataset.schema to one of them",
    )


def _load_rows(loading: Loading, path: Path, names: Sequence[str], sizes: dict[str, int]) -> None:
    """Load files at the same time; after an error none is begun."""
    bytes_of_all, done = max(1, sum(sizes[name] for name in names)), 0
    failed, lock = threading.Event(), threading.Lock()

    def ignore(_text: str, _share: float | None) -> None:
        """Report nothing: the share of all files is reported."""

    of_schema = replace(loading, progress=ignore)

    def load(name: str) -> None:
        nonlocal done
        if failed.is_set():
            return
        try:
            load_sql_file(of_schema, path / name)
        except BaseException:
            failed.set()
            raise
        with lock:
            done += sizes[name]
            loading.progress(f"loading {path.name}", done / bytes_of_all)

    with ThreadPoolExecutor(loading.dataset.threads) as threads:
        running = [threads.submit(load, name) for name in names]
    for one_of in running:
        one_of.result()


def _load_programs(loading: Loading, file: Path) -> None:
    """Load routines, events or triggers."""
    with opened(file) as source:
        load_sql(loading, source, decompressor(file), doing=f"loading {file.name}", before=end_statements_at_lines)


def end_statements_at_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield programs with a delimiter of their own: mydumper has a `;` at a line's end only behind a program.

    Raises UsageError for a text that is too large.
    """
    text = b""
    for chunk in chunks:
        text += chunk
        if len(text) > _PROGRAM_BYTES_MAX:
            raise UsageError(
                "the routines of the dump are too large",
                where="dataset.path",
                evidence=f"more than {_PROGRAM_BYTES_MAX >> 20} MiB",
            )
    if _OWN_DELIMITER.search(text) is None:
        end = _DELIMITER + b"\n"
        text = b"DELIMITER " + end + text.replace(b";\n", end)
    yield text
