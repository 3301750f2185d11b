"""Writes a dump in the layout of MySQL Shell, which is in no distribution: our own construction.

The layout is that of a dump by MySQL Shell 8.0.21 of a MySQL 5.7.33 (from the Shell's own tests; the loader has
loaded it too, by hand): names, keys of the JSON files, dialect, base64 of binary columns, chunks.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

OPTIONS = {
    "compression": "zstd",
    "defaultCharacterSet": "utf8mb4",
    "fieldsTerminatedBy": "\t",
    "fieldsEnclosedBy": "",
    "fieldsOptionallyEnclosed": False,
    "fieldsEscapedBy": "\\",
    "linesTerminatedBy": "\n",
}
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\0": "\\0"})
BINARY = "FROM_BASE64"
Table = tuple[str, Sequence[str], Sequence[Sequence[object]]]


def write_shell_dump(directory: Path, schema: str, tables: Mapping[str, Table]) -> None:
    """Write tables, each as its CREATE TABLE, its columns, and its rows in chunks of two, and the end's mark."""
    directory.mkdir()
    (directory / f"{schema}.sql").write_text(
        f"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `{schema}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n\n"
        f"USE {schema};\n\nDELIMITER ;;\n"
        "/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER' */ ;;\n"
        "CREATE FUNCTION `vat`(n INT) RETURNS INT DETERMINISTIC RETURN n * 2 ;;\nDELIMITER ;\n"
    )
    names = {}
    for name, (definition, columns, rows) in tables.items():
        base = names[name] = f"{schema}@{name.replace(' ', '%20')}"
        (directory / f"{base}.sql").write_text(definition)
        decoded = {
            column: BINARY
            for number, column in enumerate(columns)
            if any(isinstance(row[number], bytes) for row in rows)
        }
        options = {**OPTIONS, "schema": schema, "table": name, "columns": list(columns), "decodeColumns": decoded}
        description = {"options": options, "triggers": [], "extension": "tsv.zst", "chunking": True}
        (directory / f"{base}.json").write_text(json.dumps(description))
        chunks = [rows[first : first + 2] for first in range(0, len(rows), 2)] or [[]]
        for number, chunk in enumerate(chunks):
            last = "@@" if number == len(chunks) - 1 else "@"
            _compress(
                "".join("\t".join(map(_cell, row)) + "\n" for row in chunk),
                directory / f"{base}{last}{number}.tsv.zst",
            )
    (directory / f"{schema}.json").write_text(
        json.dumps({"schema": schema, "tables": list(names), "views": [], "basenames": names})
    )
    (directory / "@.json").write_text(
        json.dumps({"schemas": [schema], "basenames": {schema: schema}, "tzUtc": True, "version": "1.0.0"})
    )
    (directory / "@.done.json").write_text("{}")


def _cell(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return "\\N" if value is None else str(value).translate(ESCAPES)


def _compress(text: str, path: Path) -> None:
    path.write_bytes(subprocess.run(["zstd", "-cq"], input=text.encode(), capture_output=True, check=True).stdout)
