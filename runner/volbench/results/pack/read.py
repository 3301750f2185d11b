"""Reads a pack of somebody else's: names, sizes and digests are checked before a byte of the run is parsed."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from pydantic import ValidationError

from volbench.core.base import safe_files
from volbench.core.base.parse import parse_record_json
from volbench.core.base.text import counted
from volbench.core.records.format_version import version_fault
from volbench.core.records.pack import PACK_FILE, PACK_SCHEMA, PackRecord
from volbench.errors import MissingPrerequisite, Refused, RunUnreadable
from volbench.results.store.run_directory import RUN_FILE, RunDirectory

FILES_MAX = 10_000
BYTES_MAX = 256 << 20
"""Of all files of a pack, unpacked."""
MANIFEST_BYTES_MAX = 4 << 20
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)


@contextmanager
def opened_pack(path: Path) -> Iterator[tuple[PackRecord, RunDirectory, str]]:
    """Unpack a pack into a directory of its own, which is removed at the end.

    Yields its record, the run, and the SHA-256 of the file.

    Raises RunUnreadable for a file that is no pack, of another version or damaged; Refused for one whose files are
    not what its record says; MissingPrerequisite where the file or the temporary directory cannot be used.
    """
    try:
        with safe_files.open_given(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            with _archive(file, path) as archive:
                record = _record(archive, path)
                _check_names(archive, record, path)
                with TemporaryDirectory(prefix="volbench-pack-") as directory:
                    run = Path(directory, record.run_id)
                    _unpack(archive, record, run, path)
                    yield record, RunDirectory.open(run), digest
    except OSError as error:
        raise MissingPrerequisite(
            "the pack cannot be read", where=str(path), evidence=f"{error.strerror or error}"
        ) from error


@contextmanager
def _archive(file: IO[bytes], path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(file)
    except _DAMAGED as error:
        raise _no_pack(path, f"it is not a zip archive, or a damaged one: {error}") from error
    with archive:
        yield archive


def _record(archive: zipfile.ZipFile, path: Path) -> PackRecord:
    entries = archive.infolist()
    if len(entries) > FILES_MAX + 1:
        raise _no_pack(path, f"it has {counted(len(entries), 'file')}, a pack has at most {FILES_MAX}")
    entry = next((entry for entry in entries if entry.filename == PACK_FILE), None)
    if entry is None:
        raise _no_pack(path, f"it has no {PACK_FILE}")
    try:
        raw = parse_record_json(_content(archive, entry, MANIFEST_BYTES_MAX, path))
    except ValueError as error:
        raise _no_pack(path, f"{PACK_FILE} is not JSON: {error}") from error
    version = raw.get("schema") if isinstance(raw, dict) else None
    fault = version_fault(version, PACK_SCHEMA, rewrite="make the pack again with `volbench pack make`")
    if fault is not None:
        raise RunUnreadable(fault.message, where=f"{path}: {PACK_FILE}", next_step=fault.next_step)
    try:
        return PackRecord.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _no_pack(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _check_names(archive: zipfile.ZipFile, record: PackRecord, path: Path) -> None:
    """Raise Refused unless the archive has exactly the files of its record, each once, within the bounds."""
    names = [entry.filename for entry in archive.infolist() if entry.filename != PACK_FILE]
    twice = len(names) != len(set(names)) or len(names) + 1 != len(archive.infolist())
    odd = sorted(set(names) ^ record.files.keys())
    if twice or odd:
        raise _forged(
            path, f"{odd[0][:80]!r} is in the archive or in {PACK_FILE} only" if odd else "a file is in it twice"
        )
    total = sum(file.bytes for file in record.files.values())
    if total > BYTES_MAX:
        raise _no_pack(path, f"it unpacks to {total >> 20} MiB, a pack has at most {BYTES_MAX >> 20}")
    if RUN_FILE not in record.files:
        raise _no_pack(path, f"it has no {RUN_FILE}")


def _unpack(archive: zipfile.ZipFile, record: PackRecord, run: Path, path: Path) -> None:
    for entry in archive.infolist():
        if entry.filename == PACK_FILE:
            continue
        stated = record.files[entry.filename]
        content = _content(archive, entry, stated.bytes, path)
        if len(content) != stated.bytes or hashlib.sha256(content).hexdigest() != stated.sha256:
            raise _forged(path, f"{entry.filename} is not the file that {PACK_FILE} names: its SHA-256 differs")
        target = run / entry.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, bytes_max: int, path: Path) -> bytes:
    """Return the bytes of a file; never more than `bytes_max` are unpacked."""
    if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
        raise _no_pack(path, f"{entry.filename[:80]!r} is encrypted or compressed by another method than deflate")
    try:
        with archive.open(entry) as member:
            content = member.read(bytes_max + 1)
    except _DAMAGED as error:
        raise _no_pack(path, f"{entry.filename[:80]!r} is damaged: {error}") from error
    if len(content) > bytes_max:
        raise _forged(path, f"{entry.filename[:80]!r} is larger than {bytes_max} bytes")
    return content


def _no_pack(path: Path, evidence: str) -> RunUnreadable:
    return RunUnreadable(
        "the file is not a result pack",
        where=str(path),
        evidence=evidence,
        next_step="ask its maker for the file that `volbench pack make` wrote",
    )


def _forged(path: Path, evidence: str) -> Refused:
    return Refused(
        "the pack was changed after it was made",
        where=str(path),
        evidence=evidence,
        next_step="ask its maker for the file, and for its SHA-256",
    )
