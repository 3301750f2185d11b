"""Texts of the files that a user names: directories gone through, containers opened, encodings recognised.

Nothing is written: what a container holds is read in memory, up to the size that a plain file may have.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from volbench.core.base import safe_files
from volbench.errors import UsageError
from volbench.results.recorded.slow_log import is_slow_log

FILES_MAX = 200
FILE_BYTES_MAX = 64 << 20
TOTAL_BYTES_MAX = 512 << 20
_DEPTH_MAX = 5
"""Directories in directories that are gone through."""
_NEST_MAX = 2
"""Containers in containers: a .gz in a .tar is opened, what is in that is not."""
_TAR_MAGIC = slice(257, 262)
_ENCODINGS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_SAMPLE_BYTES = 4096
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Sequences of a terminal: S_COLORS of sysstat, and `script`."""
_BINARY: Mapping[bytes, str] = {
    b"\x96\xd5": "sar's binary file, whose layout changes from version to version; the sar that wrote it makes text"
    " of it: LC_ALL=C sar -d -b -f FILE",
    b"\xd5\x96": "sar's binary file of a machine with the other byte order; the sar that wrote it makes text of it:"
    " LC_ALL=C sar -d -b -f FILE",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it first (unzstd FILE)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first (7z x FILE)",
    b"Rar!": "a RAR archive: unpack it first (unrar x FILE)",
    b"\x89PNG": "a picture: give the figures behind it, such as the CSV of the console",
    b"\xff\xd8\xff": "a picture: give the figures behind it, such as the CSV of the console",
    b"%PDF": "a PDF: give the figures behind it, such as the CSV of the console",
    b"\xd0\xcf\x11\xe0": "a document of an office program: save the table as CSV",
    b"SQLite format 3": "a database of SQLite: print what it holds as text",
    b"PAR1": "Parquet: give the run's directory (`volbench explain RUN`) or a CSV",
    b"\x7fELF": "a program",
}
"""What files that are no text are, by their first bytes, and what to give instead."""


@dataclass(frozen=True, kw_only=True)
class ContainedFile:
    """One file or one member of a container, by its path below what was named: its text, or why there is none."""

    name: str
    text: str = ""
    problem: str = ""
    slow_log: bool = False


def contents(source: Path) -> Iterator[ContainedFile]:
    """Yield the files of a directory and of the directories in it, or one file; containers are opened.

    Raises UsageError where the source itself is not there or a directory that cannot be read.
    """
    if not source.exists():
        raise UsageError("there is no such file or directory", where=str(source))
    paths = list(_paths(source))
    budget = _Budget()
    for path, name in paths[:FILES_MAX]:
        yield from _of_path(path, name, budget)
    for _, name in paths[FILES_MAX:]:
        yield ContainedFile(name=name, problem=f"not read: at most {FILES_MAX} files of a directory are")


def decoded(content: bytes) -> str:
    """Return the text of bytes in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

    Raises ValueError for bytes that are no text, saying what they are where that is known.
    """
    return _plain_text(_decoded(content))


def _plain_text(text: str) -> str:
    """Text without what only a terminal shows (colours, titles), its lines ending in a line feed."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _decoded(content: bytes) -> str:
    for mark, encoding in _ENCODINGS:
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    sample = content[:_SAMPLE_BYTES]
    zeros = sample.count(0)
    if zeros:
        for encoding, at in (("utf-16-le", 1), ("utf-16-be", 0)):
            if sample[at::2].count(0) > 0.8 * len(sample[at::2]) and zeros < 0.6 * len(sample):
                return content.decode(encoding, "replace")
    binary_text = next((text for magic, text in _BINARY.items() if content.startswith(magic)), None)
    if binary_text is not None or zeros > len(sample) / 16:
        raise ValueError(binary_text or "no text")
    return content.decode("utf-8-sig", "replace")


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes."""
        ...


class _Budget:
    """Bytes that may still be unpacked: a small archive may hold a large one."""

    def __init__(self) -> None:
        self._left = TOTAL_BYTES_MAX

    def read(self, file: _Readable) -> bytes:
        """Return all of a file. Raises ValueError for more than a file, or all files, may have."""
        most = min(FILE_BYTES_MAX, self._left)
        content = file.read(most + 1)
        self._left -= len(content)
        if len(content) > most:
            raise ValueError(
                f"more than {FILE_BYTES_MAX >> 20} MiB of one file or {TOTAL_BYTES_MAX >> 20} MiB in all"
            )
        return content


def _paths(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files, with their names: those of a directory first, then those of the directories in it."""
    if not source.is_dir():
        yield source, source.name
        return
    yield from _below(source, "", 0)


def _below(directory: Path, prefix: str, depth: int) -> Iterator[tuple[Path, str]]:
    try:
        entries = _entries(directory)
    except UsageError:
        if not depth:
            raise
        yield directory, prefix
        return
    yield from ((path, f"{prefix}{path.name}") for path in entries if not path.is_dir())
    for path in entries:
        if path.is_dir() and not path.name.startswith(".") and not path.is_symlink():
            name = f"{prefix}{path.name}/"
            yield from _below(path, name, depth + 1) if depth < _DEPTH_MAX else [(path, name)]


def _entries(directory: Path) -> Sequence[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise UsageError(
            "the directory cannot be read", where=str(directory), evidence=error.strerror or str(error)
        ) from error


def _of_path(path: Path, name: str, budget: _Budget) -> Iterator[ContainedFile]:
    if name.endswith("/"):
        yield ContainedFile(
            name=name, problem=f"a directory that cannot be read, or {_DEPTH_MAX} levels down: name it itself"
        )
        return
    if is_slow_log(path):  # of any size
        yield ContainedFile(name=name, slow_log=True)
        return
    try:
        content = safe_files.read_given(path, bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        limit = f"at most {FILE_BYTES_MAX >> 20} MiB of a regular file are read"
        yield ContainedFile(name=name, problem=f"{error.strerror or error}; {limit}")
        return
    yield from _opened(name, content, budget, 0)


def _opened(name: str, content: bytes, budget: _Budget, depth: int) -> Iterator[ContainedFile]:
    """Yield the text of a file, or those in it where it is a container."""
    opener = next((opens for matches, opens in _CONTAINERS if matches(content)), None)
    if opener is None:
        yield _plain(name, content)
        return
    if depth >= _NEST_MAX:
        yield ContainedFile(name=name, problem="a container in a container in a container: unpack it")
        return
    members = opener(name, content, budget)
    count = 0
    while True:
        try:
            member = next(members, None)
        except (
            OSError,
            EOFError,
            ValueError,
            RuntimeError,
            NotImplementedError,
            KeyError,
            OverflowError,
            zlib.error,
            lzma.LZMAError,
            zipfile.BadZipFile,
            tarfile.TarError,
            UnicodeError,
        ) as error:
            yield ContainedFile(name=name, problem=f"the container cannot be read: {error}")
            return
        if member is None:
            break
        count += 1
        if count > FILES_MAX:
            yield ContainedFile(name=name, problem=f"at most {FILES_MAX} files of a container are read")
            return
        yield from _opened(member[0], member[1], budget, depth + 1)
    if not count:
        yield ContainedFile(name=name, problem="an empty container")


def _plain(name: str, content: bytes) -> ContainedFile:
    if not content:
        return ContainedFile(name=name, problem="empty")
    try:
        return ContainedFile(name=name, text=decoded(content))
    except ValueError as error:
        return ContainedFile(name=name, problem=str(error).replace("FILE", PurePosixPath(name).name))


_Members = Iterator[tuple[str, bytes]]


def _gzip(name: str, content: bytes, budget: _Budget) -> _Members:
    with gzip.open(io.BytesIO(content)) as file:
        yield _without(name, ".gz"), budget.read(file)


def _bzip2(name: str, content: bytes, budget: _Budget) -> _Members:
    with bz2.open(io.BytesIO(content)) as file:
        yield _without(name, ".bz2"), budget.read(file)


def _xz(name: str, content: bytes, budget: _Budget) -> _Members:
    with lzma.open(io.BytesIO(content)) as file:
        yield _without(name, ".xz"), budget.read(file)


def _tar(name: str, content: bytes, budget: _Budget) -> _Members:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            if member.isreg() and not _is_hidden(member.name):
                file = archive.extractfile(member)
                if file is not None:
                    yield f"{name}/{member.name}", budget.read(file)


def _zip(name: str, content: bytes, budget: _Budget) -> _Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        if "[Content_Types].xml" in names:
            raise ValueError("a document of an office program: save the table as CSV")
        for member in archive.infolist():
            if not member.is_dir() and not _is_hidden(member.filename):
                with archive.open(member) as file:
                    yield f"{name}/{member.filename}", budget.read(file)


def _is_hidden(name: str) -> bool:
    return (
        any(component.startswith(".") and component not in (".", "..") for component in name.split("/"))
        or "__MACOSX" in name
    )


def _without(name: str, suffix: str) -> str:
    """Return the name of what a compressed file holds; a tar keeps its own."""
    return name.removesuffix(suffix) if not name.endswith(".tgz") else name


_CONTAINERS: tuple[tuple[Callable[[bytes], bool], Callable[[str, bytes, _Budget], _Members]], ...] = (
    (lambda content: content.startswith(b"\x1f\x8b"), _gzip),
    (lambda content: content.startswith(b"BZh"), _bzip2),
    (lambda content: content.startswith(b"\xfd7zXZ\0"), _xz),
    (lambda content: content.startswith(b"PK\3\4"), _zip),
    (lambda content: content[_TAR_MAGIC] == b"ustar", _tar),
)
"""Whether bytes are a container, and what is in it."""
