# ruff: noqa: PTH101, PTH102, PTH106, PTH108, PTH112, PTH115, PTH116, PTH119, PTH208, PTH211 - the same calls on two texts
"""The same random operations on two directories: a differential test of a file system against another."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar


class Twin:
    """The same random operations on two directories; every result is compared."""

    NAMES = tuple(f"n{number}" for number in range(12))
    LENGTH_MAX = 200_000

    def __init__(self, left: Path, right: Path, seed: int) -> None:
        self.sides = (left, right)
        self.source = random.Random(seed)
        self.open: list[tuple[int, int]] = []

    def path(self) -> str:
        return "/".join(self.source.choice(self.NAMES) for _ in range(self.source.choice((1, 1, 2, 2, 3))))

    def both(self, action: Any) -> list[Any]:
        """The results of an action on both sides, an error as its number."""
        results = []
        for side in (0, 1):
            try:
                results.append(action(side))
            except OSError as error:
                results.append(("error", error.errno))
        return results

    def on_paths(self, call: Any) -> list[Any]:
        paths = [self.path(), self.path()]
        return self.both(lambda side: call(*(f"{self.sides[side]}/{path}" for path in paths)))

    def step(self) -> str:
        name = self.source.choice(sorted(self.ACTIONS))
        left, right = self.ACTIONS[name](self)
        assert left == right, f"{name}: {left!r} is not {right!r}"
        return name

    def open_file(self) -> list[Any]:
        if len(self.open) >= 8:
            return self.close_file()
        path = self.path()
        modes = os.O_RDWR | self.source.choice((0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND))
        opened = self.both(lambda side: os.open(f"{self.sides[side]}/{path}", modes, 0o644))
        if all(isinstance(item, int) for item in opened):
            self.open.append((opened[0], opened[1]))
            return ["opened", "opened"]
        return opened

    def close_file(self) -> list[Any]:
        if not self.open:
            return [None, None]
        pair = self.open.pop(self.source.randrange(len(self.open)))
        return self.both(lambda side: os.close(pair[side]))

    def on_open(self, call: Any) -> list[Any]:
        if not self.open:
            return [None, None]
        pair = self.source.choice(self.open)
        return self.both(lambda side: call(pair[side]))

    def write(self) -> list[Any]:
        offset = self.source.randrange(self.LENGTH_MAX)
        data = self.source.randbytes(self.source.choice((1, 100, 4096, 20_000)))
        return self.on_open(lambda descriptor: os.pwrite(descriptor, data, offset))

    def append(self) -> list[Any]:
        data = self.source.randbytes(100)
        return self.on_open(lambda descriptor: (os.lseek(descriptor, 0, os.SEEK_END), os.write(descriptor, data)))

    def read(self) -> list[Any]:
        offset, size = self.source.randrange(self.LENGTH_MAX), self.source.choice((1, 4096, 50_000))
        return self.on_open(lambda descriptor: os.pread(descriptor, size, offset))

    def truncate(self) -> list[Any]:
        length = self.source.randrange(self.LENGTH_MAX)
        return self.on_open(lambda descriptor: os.ftruncate(descriptor, length))

    def allocate(self) -> list[Any]:
        offset, length = self.source.randrange(self.LENGTH_MAX), self.source.randrange(1, 10_000)
        return self.on_open(lambda descriptor: os.posix_fallocate(descriptor, offset, length))

    def attributes(self) -> list[Any]:
        def call(path: str, _: str) -> Any:
            status = os.lstat(path)
            length = status.st_size if not os.path.isdir(path) else None
            return (
                status.st_mode,
                status.st_nlink,
                status.st_uid,
                status.st_gid,
                length,
                int(status.st_mtime) // 10**9,
            )

        return self.on_paths(call)

    def chmod(self) -> list[Any]:
        mode = self.source.choice((0o600, 0o644, 0o755, 0o4755, 0o2755))
        return self.on_paths(lambda path, _: os.chmod(path, mode))

    def chown(self) -> list[Any]:
        owner = self.source.choice((0, 1000))
        return self.on_paths(lambda path, _: os.chown(path, owner, owner, follow_symlinks=False))

    def times(self) -> list[Any]:
        moment = self.source.randrange(-(10**9), 2 * 10**9), self.source.randrange(2 * 10**9)

        def call(path: str, _: str) -> Any:
            os.utime(path, ns=(moment[0] * 10**9 + 123, moment[1] * 10**9 + 456))
            status = os.stat(path)
            return status.st_atime_ns, status.st_mtime_ns

        return self.on_paths(call)

    def listing(self) -> list[Any]:
        return self.on_paths(lambda path, _: sorted(os.listdir(path)))

    def whole(self) -> list[Any]:
        return self.on_paths(lambda path, _: Path(path).read_bytes())

    ACTIONS: ClassVar[dict[str, Callable[[Twin], list[Any]]]] = {
        "open": open_file,
        "open again": open_file,
        "close": close_file,
        "write": write,
        "write again": write,
        "append": append,
        "read": read,
        "read again": read,
        "truncate": truncate,
        "allocate": allocate,
        "attributes": attributes,
        "chmod": chmod,
        "chown": chown,
        "times": times,
        "list": listing,
        "whole": whole,
        "fsync": lambda self: self.on_open(os.fsync),
        "mkdir": lambda self: self.on_paths(lambda path, _: os.mkdir(path)),
        "rmdir": lambda self: self.on_paths(lambda path, _: os.rmdir(path)),
        "unlink": lambda self: self.on_paths(lambda path, _: os.unlink(path)),
        "rename": lambda self: self.on_paths(os.rename),
        "link": lambda self: self.on_paths(
            lambda path, alternative: os.link(path, alternative, follow_symlinks=False)
        ),
        "symlink": lambda self: self.on_paths(
            lambda path, alternative: os.symlink(os.path.basename(alternative), path)
        ),
        "readlink": lambda self: self.on_paths(lambda path, _: os.readlink(path)),
    }

    def close_all(self) -> None:
        for pair in self.open:
            self.both(partial(self.close_one, pair))
        self.open = []

    @staticmethod
    def close_one(pair: tuple[int, int], side: int) -> None:
        os.close(pair[side])

    @staticmethod
    def tree(side: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for path in sorted(side.rglob("*")):
            status = path.lstat()
            content: Any = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            result[str(path.relative_to(side))] = (status.st_mode, status.st_nlink, content)
        return result
