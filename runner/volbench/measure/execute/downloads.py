"""The user's dump from an address: downloaded once, and again when it has changed there.

A download is complete or absent: it has another name until all its bytes have come and been checked. A file beside
it says where it came from, and only what has such a file is ever replaced.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from volbench.core.base import s3, safe_files
from volbench.core.base.ownership import refuse_planted
from volbench.core.base.parse import parse_json
from volbench.core.base.text import size
from volbench.core.records.base import Record
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.volume.space import require_space
from volbench.results.store.files import write_atomically

FAILED = "download_failed"
"""Cause of every failure for which the address, the network or the rights are to be mended."""
TIMEOUT_S = 60.0
"""Of one answer, not of the whole."""
_CHUNK_BYTES = 1 << 20
_PROGRESS_S = 10.0
_WHERE = "dataset.url"
Progress = Callable[[str], None]


class Version(Record):
    """What tells one version of a file from another: the server's ETag or its time of change, and the size."""

    mark: str = ""
    size_bytes: int | None = None


class DownloadRecord(Record):
    """What the file beside a download says of it."""

    url: str
    files: dict[str, Version]
    sha256: str = ""


class Files(Protocol):
    """Files at an address, by their path below it; the only one of an address without a slash at its end is ''."""

    @property
    def versions(self) -> Mapping[str, Version]:
        """Each file's version, by its path."""

    def open(self, name: str, /) -> IO[bytes]:
        """Return a stream of the file's bytes."""


def download_directory(cache: Path) -> Path:
    """Return the directory of all downloads that the cache keeps."""
    return cache / "downloads"


def download_path(url: str, cache: Path) -> Path:
    """Return where the download of an address is kept unless the suite names a path."""
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2] or "dump"
    return download_directory(cache) / hashlib.sha256(url.encode()).hexdigest()[:16] / name


def download(
    url: str,
    path: Path,
    *,
    sha256: str = "",
    progress: Progress,
    without_room: str = "name another path: dataset.path",
) -> bool:
    """Bring the address's file, or all files below an address that ends in a slash, to `path`.

    Args:
        url: https://, http:// or s3://; the records refuse others.
        sha256: that the file must have; empty: any.
        progress: is called with a sentence every few seconds.
        without_room: the next step where the path's file system has no room for it.

    Returns whether anything was downloaded. Raises MissingPrerequisite (cause `download_failed`), StepFailed for
    other bytes than announced, UsageError where `path` is not volbench's, Refused where it is another user's.
    """
    refuse_planted(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _errors(url), _locked(path):
        record = _record_of(path)
        if record is not None and sha256 and (record.url, record.sha256) == (url, sha256):
            return False
        with _open(url) as files:
            if record is not None and _is_current(record, url, files.versions, sha256):
                return False
            sizes = [version.size_bytes for version in files.versions.values() if version.size_bytes is not None]
            require_space(path.parent, sum(sizes), purpose="the download", next_step=without_room)
            digest = _replace(files, path, sha256, progress)
        _write_record(path, DownloadRecord(url=url, files=dict(files.versions), sha256=digest))
    return True


def _is_current(record: DownloadRecord, url: str, versions: Mapping[str, Version], sha256: str) -> bool:
    marked = all(version.mark for version in versions.values())
    return marked and record.url == url and record.files == versions and sha256 in ("", record.sha256)


def _replace(files: Files, path: Path, sha256: str, progress: Progress) -> str:
    """Download to a hidden name, then replace an older download. Return the SHA-256 of a single file."""
    partial = path.with_name(f".{path.name}.partial")
    _remove(partial)
    total = sum(version.size_bytes or 0 for version in files.versions.values())
    done, next_s, digest = 0, time.monotonic() + _PROGRESS_S, hashlib.sha256()
    try:
        for name, version in files.versions.items():
            target = partial / name if name else partial
            target.parent.mkdir(parents=True, exist_ok=True)
            begin = done
            with files.open(name) as source, target.open("xb") as sink:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    sink.write(chunk)
                    done += len(chunk)
                    if time.monotonic() >= next_s:
                        progress(f"downloaded {size(done)}" + (f" of {size(total)}" if total else ""))
                        next_s = time.monotonic() + _PROGRESS_S
                os.fsync(sink.fileno())
            if version.size_bytes not in (None, done - begin):
                raise StepFailed(
                    "the download ended early",
                    where=_WHERE,
                    cause=FAILED,
                    evidence=f"{done - begin} of {version.size_bytes} bytes {name}".rstrip(),
                    next_step="try again",
                )
        if sha256 and digest.hexdigest() != sha256:
            raise StepFailed(
                "the download is not the file that the suite names",
                where=_WHERE,
                evidence=f"SHA-256 {digest.hexdigest()} instead of {sha256}",
                cause=FAILED,
            )
        _write_record(path, DownloadRecord(url="", files={}))  # an interruption from here on means another download
        _remove(path)
        partial.rename(path)
    except BaseException:
        _remove(partial)
        raise
    return digest.hexdigest() if "" in files.versions else ""


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.download.json")


def _write_record(path: Path, record: DownloadRecord) -> None:
    write_atomically(_record_path(path), record.model_dump_json(indent=1) + "\n")


def _record_of(path: Path) -> DownloadRecord | None:
    """Return what is known of an older download, None without one.

    Raises UsageError for the user's own data, OSError for a record of another user: it would vouch for any bytes.
    """
    try:
        with os.fdopen(safe_files.open_own(_record_path(path), os.O_RDONLY), "rb") as file:
            record = DownloadRecord.model_validate(parse_json(file.read(safe_files.DOCUMENT_BYTES_MAX)))
    except (FileNotFoundError, ValueError):
        record = None
    if record is None and os.path.lexists(path):
        raise UsageError(
            "what is at the path was not downloaded by volbench",
            where="dataset.path",
            evidence=str(path),
            next_step="name another path, or leave out `url` to use this one",
        )
    return record if path.exists() else None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a download's path. Raise MissingPrerequisite while another process downloads to it."""
    with os.fdopen(safe_files.open_own(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MissingPrerequisite(
                "another volbench downloads this dump", where=str(path), next_step="wait for its end", cause=FAILED
            ) from error
        yield


@contextmanager
def _errors(url: str) -> Iterator[None]:
    kinds = s3.faults() if urlsplit(url).scheme == "s3" else (OSError, ValueError, http.client.HTTPException)
    try:
        yield
    except kinds as error:
        raise MissingPrerequisite(
            "the dump could not be downloaded",
            where=_WHERE,
            evidence=f"{url}: {error}",
            cause=FAILED,
            next_step="check address, network and rights; or download it yourself, and name it by `path` alone",
        ) from error


@contextmanager
def _open(url: str) -> Iterator[Files]:
    if urlsplit(url).scheme == "s3":
        location = s3.Location.of(url, where=_WHERE)
        with s3.connected(location) as client:
            yield _BucketFiles(client, location)
        return
    request = urllib.request.Request(url)  # noqa: S310 - the records allow http and https alone
    try:
        with urllib.request.build_opener(_NoDowngrade()).open(request, timeout=TIMEOUT_S) as response:
            yield _Response(response)
    except urllib.error.HTTPError as error:
        error.close()  # it has the connection
        raise


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from https to anything else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"{newurl} is a redirection to an address without TLS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Response:
    """One file over HTTP, whose headers came with the answer that has its bytes."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        length = response.headers.get("Content-Length", "")
        self.versions = {"": Version(mark=mark, size_bytes=int(length) if length.isdecimal() else None)}

    def open(self, _: str, /) -> IO[bytes]:
        """Return the answer itself, once."""
        return self._response


class _BucketFiles:
    """An object of an S3 bucket, or all objects below a prefix that ends in a slash."""

    def __init__(self, client: Any, location: s3.Location) -> None:
        self._client = client
        self._location = location
        key = location.key
        objects = {
            entry["Key"]: entry
            for entry in s3.listed(client, location.bucket, key)
            if (entry["Key"] == key or self._is_prefix) and not entry["Key"].endswith("/")
        }
        if not objects:
            raise FileNotFoundError("there is no such object, or none below that prefix")
        self.versions = {
            name.removeprefix(key): Version(mark=entry["ETag"].strip('"'), size_bytes=entry["Size"])
            for name, entry in objects.items()
        }
        for name in self.versions:
            if name.startswith("/") or ".." in Path(name).parts:
                raise ValueError(f"an object is named {name}")

    @property
    def _is_prefix(self) -> bool:
        return not self._location.key or self._location.key.endswith("/")

    def open(self, name: str, /) -> IO[bytes]:
        """Return a stream of an object."""
        return s3.opened(self._client, self._location.bucket, f"{self._location.key}{name}")
