"""A tree of small files: their names and sizes, and the operations on one of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volbench.core.records.steps.small_files import SmallFilesStep

_POOL_BYTES = 4 << 20
_READ_BYTES = 128 << 10
"""The size of cp's reads."""
OBJECT_MODE = 0o444


@dataclass(frozen=True, slots=True)
class SmallFile:
    """One file of the tree: its path as text, since the measured time would include that of path objects."""

    path: str
    size: int
    number: int


def planned_tree(step: SmallFilesStep, directory: Path, *, seed: int) -> list[SmallFile]:
    """Return the files of a step below a directory, in the order of their directories."""
    sizes = file_sizes(step, seed=seed)
    per = step.files_per_directory
    return [
        SmallFile(f"{directory}/{number // per:05d}/{number % per:05d}", size, number)
        for number, size in enumerate(sizes)
    ]


def file_sizes(step: SmallFilesStep, *, seed: int) -> list[int]:
    """Return a size for each file: the step's sizes in turn, or log-normal ones that add up to the total size."""
    if step.sizes_bytes:
        return [step.sizes_bytes[number % len(step.sizes_bytes)] for number in range(step.files)]
    drawn = np.exp(step.sigma * np.random.default_rng(seed).standard_normal(step.files))
    ends = np.rint(np.cumsum(drawn) / drawn.sum() * step.total_size_bytes).astype(np.int64)
    return [int(size) for size in np.diff(ends, prepend=0)]


def folders_of(files: Iterable[SmallFile]) -> list[str]:
    """Return the directories of the files, each once."""
    return list(dict.fromkeys(file.path.rpartition("/")[0] for file in files))


def objects_of(files: Sequence[SmallFile], directory: Path, *, seed: int) -> list[SmallFile]:
    """Return an object for each file, named as git names them: 256 directories, 38 more digits."""
    generator = random.Random(f"objects/{seed}")
    names = (f"{generator.getrandbits(160):040x}" for _ in files)
    return [
        SmallFile(f"{directory}/{name[:2]}/{name[2:]}", file.size, file.number)
        for name, file in zip(names, files, strict=True)
    ]


class Content:
    """Bytes that no storage can compress, different for each file."""

    def __init__(self, largest: int, *, seed: int) -> None:
        self._bytes = memoryview(random.Random(seed).randbytes(_POOL_BYTES + largest))

    def of(self, file: SmallFile) -> memoryview:
        """Return the content of a file."""
        at = file.number * 4099 % _POOL_BYTES
        return self._bytes[at : at + file.size]


def create_job(content: Content, *, fsync: bool) -> Callable[[SmallFile], object]:
    """Return a job that creates a file with its content."""

    def create(file: SmallFile) -> None:
        _write_new(file.path, content.of(file), mode=0o644, fsync=fsync)

    return create


def read_job() -> Callable[[SmallFile], object]:
    """Return a job that reads a file from start to end into a buffer of its own; threads must not share the job."""
    buffer = [bytearray(_READ_BYTES)]

    def read(file: SmallFile) -> None:
        descriptor = os.open(file.path, os.O_RDONLY)
        try:
            left = file.size
            while left > 0 and (length := os.readv(descriptor, buffer)):
                left -= length
        finally:
            os.close(descriptor)

    return read


def stat_job() -> Callable[[SmallFile], object]:
    """Return a job that reads a file's attributes."""
    return lambda file: os.stat(file.path)


def copy_job(source: str, target: str, *, fsync: bool) -> Callable[[SmallFile], object]:
    """Return a job that copies a file as cp does without clones; threads must not share the job."""
    buffer = memoryview(bytearray(_READ_BYTES))
    vector, prefix = [buffer], len(source)

    def copy(file: SmallFile) -> None:
        path = file.path
        source_fd = os.open(path, os.O_RDONLY)
        try:
            target_fd = os.open(target + path[prefix:], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            try:
                left = file.size
                while left > 0 and (size := os.readv(source_fd, vector)):
                    if (written := os.write(target_fd, buffer[:size])) < size:
                        _write(target_fd, buffer[written:size])
                    left -= size
                if fsync:
                    os.fsync(target_fd)
            finally:
                os.close(target_fd)
        finally:
            os.close(source_fd)

    return copy


def publish_job(content: Content, *, by: str, fsync: bool) -> Callable[[SmallFile], object]:
    """Return a job that writes an object as git does: check for it, write a temporary file, link or rename it."""

    def publish(file: SmallFile) -> None:
        if os.path.lexists(file.path):
            return
        temporary = f"{file.path.rpartition('/')[0]}/new_{file.number}"
        _write_new(temporary, content.of(file), mode=OBJECT_MODE, fsync=fsync)
        if by == "link":
            os.link(temporary, file.path)
            os.unlink(temporary)
        else:
            os.rename(temporary, file.path)

    return publish


def remove_job() -> Callable[[SmallFile], object]:
    """Return a job that removes a file."""
    return lambda file: os.unlink(file.path)


def _write_new(path: str, content: memoryview, *, mode: int, fsync: bool) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        _write(descriptor, content)
        if fsync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: memoryview) -> None:
    at = 0
    while at < len(content):
        at += os.write(descriptor, content[at:])
