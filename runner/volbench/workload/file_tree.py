"""A tree of small files: their names and sizes, and what is done to one of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volbench.records.steps import SmallFilesStep

_POOL_BYTES = 4 << 20
_READ_BYTES = 128 << 10
"""What cp reads at a time."""
FAN_OUT = 256
OBJECT_MODE = 0o444


@dataclass(frozen=True, slots=True)
class SmallFile:
    """One file of the tree: its path as text, since a path object's own time would be measured too."""

    path: str
    size: int
    number: int


def planned_tree(step: SmallFilesStep, directory: Path, *, seed: int) -> list[SmallFile]:
    """The files of a step below a directory, in the order of their directories."""
    sizes = file_sizes(step, seed=seed)
    per = step.files_per_directory
    return [
        SmallFile(f"{directory}/{number // per:05d}/{number % per:05d}", size, number)
        for number, size in enumerate(sizes)
    ]


def file_sizes(step: SmallFilesStep, *, seed: int) -> list[int]:
    """As many sizes as there are files: those given, in turn, or log-normal ones that add up to the total size."""
    if step.sizes_bytes:
        return [step.sizes_bytes[number % len(step.sizes_bytes)] for number in range(step.files)]
    drawn = np.exp(step.sigma * np.random.default_rng(seed).standard_normal(step.files))
    ends = np.rint(np.cumsum(drawn) / drawn.sum() * step.total_size_bytes).astype(np.int64)
    return [int(size) for size in np.diff(ends, prepend=0)]


def folders_of(files: Iterable[SmallFile]) -> list[str]:
    """The directories that the files are in, each once."""
    return list(dict.fromkeys(file.path.rpartition("/")[0] for file in files))


def objects_of(files: Sequence[SmallFile], directory: Path, *, seed: int) -> list[SmallFile]:
    """An object for each file, named as git names them: 256 directories, 38 more digits."""
    generator = random.Random(f"objects/{seed}")  # noqa: S311 - names, no secrets
    names = (f"{generator.getrandbits(160):040x}" for _ in files)
    return [
        SmallFile(f"{directory}/{name[:2]}/{name[2:]}", file.size, file.number)
        for name, file in zip(names, files, strict=True)
    ]


class Content:
    """Bytes that no storage can compress, other ones for each file."""

    def __init__(self, largest: int, *, seed: int) -> None:
        self._bytes = memoryview(random.Random(seed).randbytes(_POOL_BYTES + largest))  # noqa: S311 - no secrets

    def of(self, file: SmallFile) -> memoryview:
        """The content of a file."""
        at = file.number * 4099 % _POOL_BYTES
        return self._bytes[at : at + file.size]


def creating(content: Content, *, fsync: bool) -> Callable[[SmallFile], object]:
    """Makes a file and writes its content."""

    def create(file: SmallFile) -> None:
        descriptor = os.open(file.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            _write(descriptor, content.of(file))
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    return create


def reading() -> Callable[[SmallFile], object]:
    """Reads a file from start to end into one buffer. One call makes one reader: it is not shared by jobs."""
    buffer = [bytearray(_READ_BYTES)]

    def read(file: SmallFile) -> None:
        descriptor = os.open(file.path, os.O_RDONLY)
        try:
            left = file.size
            while left > 0 and (taken := os.readv(descriptor, buffer)):
                left -= taken
        finally:
            os.close(descriptor)

    return read


def looking() -> Callable[[SmallFile], object]:
    """Asks for a file's attributes."""
    return lambda file: os.stat(file.path)  # noqa: PTH116 - see SmallFile


def copying(source: str, target: str, *, fsync: bool) -> Callable[[SmallFile], object]:
    """Copies a file by reading and writing, as cp does where it cannot clone. Not shared by jobs."""
    buffer = memoryview(bytearray(_READ_BYTES))

    def copy(file: SmallFile) -> None:
        given = os.open(file.path, os.O_RDONLY)
        try:
            taken = os.open(target + file.path.removeprefix(source), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            try:
                left = file.size
                while left > 0 and (size := os.readv(given, [buffer])):
                    _write(taken, buffer[:size])
                    left -= size
                if fsync:
                    os.fsync(taken)
            finally:
                os.close(taken)
        finally:
            os.close(given)

    return copy


def publishing(content: Content, *, by: str, fsync: bool) -> Callable[[SmallFile], object]:
    """Writes an object as git does: looks whether it is there, writes a temporary file, gives it its name."""

    def publish(file: SmallFile) -> None:
        if os.path.lexists(file.path):
            return
        temporary = f"{file.path.rpartition('/')[0]}/new_{file.number}"
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OBJECT_MODE)
        try:
            _write(descriptor, content.of(file))
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if by == "link":
            os.link(temporary, file.path)
            os.unlink(temporary)  # noqa: PTH108 - see SmallFile
        else:
            os.rename(temporary, file.path)  # noqa: PTH104 - see SmallFile

    return publish


def removing() -> Callable[[SmallFile], object]:
    """Removes a file."""
    return lambda file: os.unlink(file.path)  # noqa: PTH108 - see SmallFile


def _write(descriptor: int, content: memoryview) -> None:
    at = 0
    while at < len(content):
        at += os.write(descriptor, content[at:])
