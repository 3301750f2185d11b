"""A copy of a run's directory in an S3 bucket, each file read back and compared by checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from volbench.core.base import s3
from volbench.errors import MissingPrerequisite, StepFailed

SUMS_FILE = "SHA256SUMS"
"""Written last, in the format of `sha256sum`: a copy without it is not complete."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What a copy took: files and bytes sent now, and files that were there already."""

    destination: str
    files: int
    size_bytes: int
    unchanged: int


class Bucket:
    """Runs below one address, such as s3://bucket/prefix.

    Args:
        address: options such as `?region=eu-west-1&endpoint_override=HOST:PORT` may follow.
    """

    def __init__(self, address: str) -> None:
        """Raises UsageError for an address that is none, or has credentials in it. Asks nobody."""
        self._location = s3.Location.of(address, where="--results-to")

    def copy(self, run: Path) -> Copied:
        """Bring the copy of a run's directory up to date.

        Files that go on changing are as they were when they were read. Raises MissingPrerequisite when the bucket
        does not answer or refuses, StepFailed when it gives back other bytes than it took.
        """
        target = f"{self._location}/{run.name}"
        with self._errors(target), s3.connected(self._location) as client:
            copy = _Copy(client, self._location.bucket, f"{self._location.key.rstrip('/')}/{run.name}/".lstrip("/"))
            before, sizes = copy.sums(), copy.sizes()
            sums: dict[str, str] = {}
            sent = sent_bytes = 0
            for path in _files_of(run):
                name = path.relative_to(run).as_posix()
                sums[name] = _local_digest(path)
                if sums[name] == before.get(name) and sizes.get(name) == path.stat().st_size:
                    continue
                with path.open("rb") as file:
                    sums[name] = copy.send(name, file)
                sent, sent_bytes = sent + 1, sent_bytes + path.stat().st_size
            copy.send(SUMS_FILE, BytesIO(_text_of(sums).encode()))
        return Copied(destination=target, files=sent, size_bytes=sent_bytes, unchanged=len(sums) - sent)

    @staticmethod
    @contextmanager
    def _errors(address: str) -> Iterator[None]:
        try:
            yield
        except s3.faults() as error:
            raise MissingPrerequisite(
                "the results could not be copied",
                where=address,
                evidence=str(error),
                next_step="check bucket name, region, credentials and permissions; "
                "`volbench resume RUN --results-to ...` copies them",
                cause="results_not_copied",
            ) from error


class _Copy:
    """A run's copy in its bucket; names are below the run's directory.

    Args:
        client: of boto3.
        prefix: of the run's objects, with a slash at its end.
    """

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def send(self, name: str, file: IO[bytes]) -> str:
        """Store a file and read it back; return its digest. Raise StepFailed when that is another."""
        source = _Digested(file)
        s3.upload(self._client, self._bucket, f"{self._prefix}{name}", source)
        digest = _digest(s3.opened(self._client, self._bucket, f"{self._prefix}{name}"))
        if digest != source.digest.hexdigest():
            raise StepFailed(
                "the bucket gives back other bytes than it took",
                where=f"s3://{self._bucket}/{self._prefix}{name}",
                evidence=f"SHA-256 {digest} instead of {source.digest.hexdigest()}",
                cause="results_not_copied",
            )
        return digest

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each object of the copy."""
        objects = s3.listed(self._client, self._bucket, self._prefix)
        return {entry["Key"].removeprefix(self._prefix): entry["Size"] for entry in objects}

    def sums(self) -> Mapping[str, str]:
        """Return name -> digest as an earlier copy left them; empty without one."""
        try:
            lines = s3.opened(self._client, self._bucket, f"{self._prefix}{SUMS_FILE}").read().decode().splitlines()
        except self._client.exceptions.NoSuchKey:
            return {}
        return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


class _Digested:
    """A file as a stream that is never waited for, and the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int, /, on_poll: Callable[[], None]) -> bytes:
        """Return `size` bytes, fewer at the end only."""
        on_poll()
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _text_of(sums: Mapping[str, str]) -> str:
    return "".join(f"{checksum}  {name}\n" for name, checksum in sums.items())


def _files_of(run: Path) -> Iterator[Path]:
    """Yield all but what is ours for a moment: locks and files that are not whole."""
    for path in sorted(run.rglob("*")):
        if path.is_file() and not any(name.startswith(".") for name in path.relative_to(run).parts):
            yield path


def _local_digest(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


def _digest(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
