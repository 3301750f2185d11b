"""The form of a file of SQL, by its bytes: compressed, in an archive, in UTF-16, or no SQL at all.

A plan looks at the first bytes; a load reads them as what they are. Programs decompress, confined; an archive's
headers are read here, each within a bound.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from volbench.core.base import safe_files
from volbench.errors import UsageError

HEAD_BYTES = 1 << 16
"""Of what is compressed, and of what it holds, that a plan looks at."""
_CHUNK_BYTES = 1 << 16
_READ_BYTES_MAX = 64 << 20
"""Of an archive's headers at a time, and of a tar's content that a plan looks at."""
_TAR_MAGIC = slice(257, 262)
_ZIP_MAGIC = b"PK\3\4"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PROGRAMS = {
    b"\x1f\x8b": ("gzip", "-dc"),
    _ZSTD: ("zstd", "-dcq"),
    b"BZh": ("bzip2", "-dc"),
    b"\xfd7zXZ\0": ("xz", "-dc"),
}
"""The program that decompresses, by the first bytes."""
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (codecs.BOM_UTF8, "utf-8"))
_UNPACK = "unpack it, and name the file of SQL in it"
_NOT_SQL = {
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", f"{_UNPACK}: 7z x"),
    b"Rar!": ("a RAR archive", f"{_UNPACK}: unrar x"),
    b"PGDMP": ("a dump of PostgreSQL", "name a dump of MySQL or MariaDB"),
    b"SQLite format 3": ("a database of SQLite", "name a dump of MySQL or MariaDB"),
    b"XBSTCK": ("a stream of xtrabackup", "extract and prepare it, and name its directory"),
    b"%PDF": ("a PDF", "name a dump of MySQL or MariaDB"),
    b"\x7fELF": ("a program", "name a dump of MySQL or MariaDB"),
    b"\xfebin": ("a binary log", "name a dump; mysqlbinlog makes statements of a binary log"),
}
_DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    OverflowError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
"""What the readers of archives raise for bytes that are none."""


def decompressing_program(head: bytes) -> tuple[str, ...]:
    """Return the words of the program that decompresses what begins so; none for what is not compressed."""
    return next((programs for magic, programs in _PROGRAMS.items() if head.startswith(magic)), ())


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file. Raise UsageError."""
    try:
        with safe_files.open_given(path) as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise UsageError("a file of the dataset cannot be read", where="dataset", evidence=str(error)) from error


def check_sql_file(path: Path) -> None:
    """Raise UsageError for a file that is no SQL, or an archive of which no one file is to be loaded.

    What zstd compressed is looked at when it is loaded.
    """
    head = head_of(path)
    if is_zip(head):
        with safe_files.open_given(path) as file:
            _sql_member_of_zip(file, path.name)
        return
    if not head:
        raise _no_sql(path.name, "an empty file", "name the file of SQL")
    opener = _OPENERS.get(next(iter(decompressing_program(head)), ""))
    with safe_files.open_given(path) as raw:
        try:
            with opener(raw) if opener else raw as file:
                inner = head if opener is None else file.read(HEAD_BYTES)
                if inner[_TAR_MAGIC] == b"ustar":
                    file.seek(0)
                    chunks = _sql_of_tar(iter(lambda: file.read(_CHUNK_BYTES), b""), path.name)
                    for _ in islice(chunks, _READ_BYTES_MAX // _CHUNK_BYTES):
                        pass
                    return
        except UsageError:
            raise
        except _DAMAGED as error:
            raise _no_sql(path.name, "damaged", "copy it again", evidence=str(error)) from error
    if not head.startswith(_ZSTD):
        _check_text(inner, path.name)


def is_zip(head: bytes) -> bool:
    """Return whether a file that begins so is a zip."""
    return head.startswith(_ZIP_MAGIC)


def zip_of_sql(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the chunks of the one file of SQL in a zip. Raise UsageError."""
    archive, member = _sql_member_of_zip(file, name)
    try:
        with archive, archive.open(member) as content:
            while chunk := content.read(_CHUNK_BYTES):
                yield chunk
    except _DAMAGED as error:
        raise _no_sql(name, "a damaged zip archive", "copy it again", evidence=str(error)) from error


def sql_of(chunks: Iterable[bytes], name: str, recoded: Callable[[str], None]) -> Iterator[bytes]:
    """Yield SQL in UTF-8: out of a tar, out of UTF-16, without a byte order mark.

    Args:
        name: of the file, for messages.
        recoded: gets the encoding that it was in, where that was UTF-16.

    Raises UsageError for a tar of which no one file is to be loaded, and for what is no text.
    """
    blocks = iter(chunks)
    head = _head(blocks)
    if head[_TAR_MAGIC] == b"ustar":
        blocks = _sql_of_tar(_joined(head, blocks), name)
        head = _head(blocks)
    if not head:
        return
    _check_text(head, name)
    mark, encoding = _encoding(head)
    if encoding == "utf-8":
        yield head.removeprefix(mark)
        yield from blocks
        return
    recoded(encoding.upper())
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in _joined(head.removeprefix(mark), blocks):
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()


class ForwardFile(io.RawIOBase):
    """A stream of chunks as a file that is read forward: what `tarfile` needs of one, each read within a bound."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._held, self._start = chunks, b"", 0
        self._position = 0

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seekable(self) -> bool:
        """Return True: it goes forward, and back by what it holds."""
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Go forward, or back within the last chunk. Raises OSError for other positions."""
        if whence != io.SEEK_SET or position < self._start:
            raise OSError("a stream is read forward only")
        while position > self._start + len(self._held):
            if not self._fill():
                break
        self._position = min(position, self._start + len(self._held))
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes. Raises ValueError for more than an archive's header may have."""
        if not 0 <= size <= _READ_BYTES_MAX:
            raise ValueError(f"an archive with a header of more than {_READ_BYTES_MAX >> 20} MiB")
        pieces, missing = [], size
        while missing:
            offset = self._position - self._start
            piece = self._held[offset : offset + missing]
            if piece:
                pieces.append(piece)
                self._position += len(piece)
                missing -= len(piece)
            elif not self._fill():
                break
        return b"".join(pieces)

    def _fill(self) -> bool:
        """Hold the next chunk, and the last bytes of the one before it."""
        chunk = next(self._chunks, b"")
        tail = self._held[-tarfile.BLOCKSIZE :]
        self._start += len(self._held) - len(tail)
        self._held = tail + chunk
        return bool(chunk)


class _BoundedFile:
    """A file of which no more is read at a time than an archive's directory may have."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes. Raises ValueError."""
        content = self._file.read(size if 0 <= size <= _READ_BYTES_MAX else _READ_BYTES_MAX + 1)
        if len(content) > _READ_BYTES_MAX:
            raise ValueError(f"an archive with a directory of more than {_READ_BYTES_MAX >> 20} MiB")
        return content


def _head(chunks: Iterator[bytes]) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= tarfile.BLOCKSIZE:
            break
    return head


def _joined(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from chunks


def _encoding(head: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and the encoding of a text."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return mark, encoding
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if len(zeros) > 1 and zeros.count(0) > 0.8 * len(zeros) and head.count(0) < 0.6 * len(head):
            return b"", encoding
    return b"", "utf-8"


def _check_text(head: bytes, name: str) -> None:
    """Raise UsageError for bytes that are no SQL. One NUL may be in a literal; a text begins with none."""
    for magic, (reason, next_step) in _NOT_SQL.items():
        if head.startswith(magic):
            raise _no_sql(name, reason, next_step)
    sample = head[: tarfile.BLOCKSIZE]
    if _encoding(head)[1] == "utf-8" and sample.count(0) > len(sample) / 16:
        raise _no_sql(name, "no text", "name a dump of MySQL or MariaDB", evidence=f"it begins with {head[:16]!r}")


def _sql_of_tar(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the one file of SQL in a tar. Raise UsageError at a second one, and at its end without any."""
    names: list[str] = []
    sql: list[str] = []
    try:
        with tarfile.open(fileobj=ForwardFile(chunks), mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined] # else it holds the header of each
                if not member.isreg() or _is_hidden(member.name):
                    continue
                names.append(member.name)
                if not _is_sql(member.name):
                    continue
                sql.append(member.name)
                if len(sql) > 1:
                    raise _not_one(name, sql)
                content = archive.extractfile(member)
                while content is not None and (chunk := content.read(_CHUNK_BYTES)):
                    yield chunk
    except UsageError:
        raise
    except _DAMAGED as error:
        raise _no_sql(name, "a damaged tar archive", "copy it again", evidence=str(error)) from error
    if not sql:
        raise _not_one(name, names)


def _sql_member_of_zip(file: IO[bytes], name: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
    try:
        archive = zipfile.ZipFile(_BoundedFile(file))
    except _DAMAGED as error:
        raise _no_sql(name, "a damaged zip archive", "copy it again", evidence=str(error)) from error
    members = [member for member in archive.infolist() if not member.is_dir() and not _is_hidden(member.filename)]
    sql = [member for member in members if _is_sql(member.filename)]
    if len(sql) != 1:
        raise _not_one(name, [member.filename for member in sql or members])
    if sql[0].flag_bits & 1:
        raise _no_sql(name, "a zip archive with a password", _UNPACK)
    return archive, sql[0]


def _is_sql(name: str) -> bool:
    return name.lower().endswith((".sql", ".dump", ".dmp"))


def _is_hidden(name: str) -> bool:
    return (
        any(component.startswith(".") and component not in (".", "..") for component in name.split("/"))
        or "__MACOSX" in name
    )


def _not_one(name: str, names: list[str]) -> UsageError:
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return UsageError(
        f"{name} is an archive that has not one file of SQL",
        where="dataset.path",
        evidence=f"it has {listed}" if names else "it has no file",
        next_step=f"{_UNPACK}, or the directory of the dump in it",
    )


def _no_sql(name: str, reason: str, next_step: str, *, evidence: str = "") -> UsageError:
    return UsageError(
        f"{name} cannot be loaded: it is {reason}", where="dataset.path", evidence=evidence, next_step=next_step
    )


_OPENERS: dict[str, Callable[..., Any]] = {
    "gzip": gzip.open,
    "bzip2": bz2.open,
    "xz": lzma.open,
}
