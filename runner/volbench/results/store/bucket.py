"""A copy of a run's directory in an S3 bucket, each file read back and compared by checksum.

Credentials and region are found as AWS' own tools find them: environment, ~/.aws, a pod's role. They are no part of
the address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from volbench.errors import EnvironmentLacks, StepFailed, UsageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

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
        address: as pyarrow takes it; options such as `?region=eu-west-1&endpoint_override=HOST:PORT` may follow.
    """

    def __init__(self, address: str) -> None:
        """Raises UsageError for an address that is none, or has credentials in it. Asks nobody."""
        url = urlsplit(address)
        where = "--results-to"
        if url.username or url.password:
            raise UsageError(
                "an address holds no credentials",
                where=where,
                next_step="put them where AWS' tools look: AWS_PROFILE, ~/.aws/credentials, a role",
            )
        if url.scheme != "s3" or not url.netloc:
            raise UsageError("results go to s3://BUCKET/PREFIX", where=where, evidence=repr(address))
        self._address = address
        self._shown = f"s3://{url.netloc}{url.path.rstrip('/')}"

    def copy(self, run: Path) -> Copied:
        """Bring the copy of a run's directory up to date.

        Files that go on changing are as they were when they were read. Raises EnvironmentLacks when the bucket does
        not answer or refuses, StepFailed when it gives back other bytes than it took.
        """
        target = f"{self._shown}/{run.name}"
        with self._errors(target):
            files, root = self._open()
            base = f"{root.rstrip('/')}/{run.name}"
            before = _sums(files, f"{base}/{SUMS_FILE}")
            sums: dict[str, str] = {}
            sent = sent_bytes = 0
            for path in _files_of(run):
                name = path.relative_to(run).as_posix()
                sums[name] = _local_digest(path)
                if sums[name] == before.get(name) and _size(files, f"{base}/{name}") == path.stat().st_size:
                    continue
                sums[name] = _send(files, path, f"{base}/{name}")
                sent, sent_bytes = sent + 1, sent_bytes + path.stat().st_size
            _write(
                files, f"{base}/{SUMS_FILE}", "".join(f"{checksum}  {name}\n" for name, checksum in sums.items())
            )
        return Copied(destination=target, files=sent, size_bytes=sent_bytes, unchanged=len(sums) - sent)

    def _open(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import FileSystem  # noqa: PLC0415 - brings AWS' library, which most runs do without

        files, root = FileSystem.from_uri(self._address)
        return files, str(root)

    @staticmethod
    @contextmanager
    def _errors(address: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # pyarrow's own errors are these
            raise EnvironmentLacks(
                "the results could not be copied",
                where=address,
                evidence=str(error),
                next_step="check bucket name, region, credentials and permissions; "
                "`volbench resume RUN --results-to ...` copies them",
                cause="results_not_copied",
            ) from error


def _files_of(run: Path) -> Iterator[Path]:
    """All but what is ours for a moment: locks and files that are not whole."""
    for path in sorted(run.rglob("*")):
        if path.is_file() and not any(name.startswith(".") for name in path.relative_to(run).parts):
            yield path


def _send(files: FileSystem, path: Path, target: str) -> str:
    """Write a file and read it back; its digest. Raises StepFailed when that is another."""
    with path.open("rb") as source, files.open_output_stream(target) as sink:
        digest = hashlib.sha256()
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            sink.write(chunk)
    with files.open_input_stream(target) as stream:
        back = _digest(stream)
    if back != digest.hexdigest():
        raise StepFailed(
            "the bucket gives back other bytes than it took",
            where=target,
            evidence=f"SHA-256 {back} instead of {digest.hexdigest()}",
            cause="results_not_copied",
        )
    return back


def _local_digest(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


def _digest(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _write(files: FileSystem, target: str, text: str) -> None:
    with files.open_output_stream(target) as stream:
        stream.write(text.encode())


def _size(files: FileSystem, target: str) -> int | None:
    size: int | None = files.get_file_info(target).size
    return size


def _sums(files: FileSystem, target: str) -> Mapping[str, str]:
    """Name -> digest as an earlier copy left them; empty without one."""
    if _size(files, target) is None:
        return {}
    with files.open_input_stream(target) as stream:
        lines = stream.read().decode().splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
