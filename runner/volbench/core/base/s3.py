"""Objects of S3 buckets, by boto3: listed, read, and uploaded by its managed transfer.

Credentials, region and endpoint come from where AWS' own tools look for them: environment, ~/.aws, a role. An
address holds no credentials; it may name region and endpoint itself:
`s3://BUCKET/PREFIX?region=R&endpoint_override=HOST:PORT&scheme=http`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import IO, Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from volbench.core.base.extras import require
from volbench.core.base.units import MIB
from volbench.errors import UsageError

PARTS_MAX = 10_000
"""Of one object. Source: Amazon S3 User Guide, multipart upload limits."""
PART_BYTES_MIN = 16 * MIB
_MEMORY_BYTES = 512 * MIB
_PARALLEL_MAX = 4
_POLL_S = 0.2
_REFUSED = 300
_CONNECT_S, _ANSWER_S, _ATTEMPTS = 10, 30, 3
_OPTIONS = frozenset({"region", "endpoint_override", "scheme"})


class Stream(Protocol):
    """Bytes to upload, which may have to be waited for."""

    def read(self, size: int, /, on_poll: Callable[[], None]) -> bytes:
        """Return `size` bytes, fewer at the end only. Raise what `on_poll` raises while bytes are waited for."""


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """An object that the bucket has; `version` is empty in a bucket without versions."""

    size_bytes: int
    version: str


class PartsStay(Exception):
    """An upload failed, and its parts could not be removed; `upload_id` is that of the upload."""

    def __init__(self, upload_id: str, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.upload_id = upload_id


@dataclass(frozen=True, kw_only=True)
class Location:
    """A bucket, a key or prefix in it, and where the bucket is."""

    bucket: str
    key: str
    region: str | None = None
    endpoint: str | None = None

    @classmethod
    def of(cls, address: str, *, where: str) -> Location:
        """Return the location of an address. Raise UsageError for one that is none, or has credentials in it."""
        url = urlsplit(address)
        if url.username or url.password:
            raise UsageError(
                "an address holds no credentials",
                where=where,
                next_step="put them where AWS' tools look: AWS_PROFILE, ~/.aws/credentials, a role",
            )
        options = dict(parse_qsl(url.query))
        if url.scheme != "s3" or not url.netloc or not options.keys() <= _OPTIONS:
            raise UsageError("not an address of the form s3://BUCKET/PREFIX", where=where, evidence=repr(address))
        endpoint = options.get("endpoint_override")
        return cls(
            bucket=url.netloc,
            key=url.path.lstrip("/"),
            region=options.get("region"),
            endpoint=f"{options.get('scheme', 'https')}://{endpoint}" if endpoint else None,
        )

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}".rstrip("/")


@contextmanager
def connected(location: Location) -> Iterator[Any]:
    """Yield a client of boto3. Raise what `faults` lists, MissingPrerequisite without boto3."""
    require("boto3")
    import boto3  # noqa: PLC0415 - an extra
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_ANSWER_S,
        retries={"total_max_attempts": _ATTEMPTS},
        max_pool_connections=_PARALLEL_MAX,
    )
    session = boto3.Session(region_name=location.region or os.environ.get("AWS_REGION") or None)
    client = session.client("s3", config=config, endpoint_url=location.endpoint)
    try:
        yield client
    finally:
        client.close()


def faults() -> tuple[type[Exception], ...]:
    """Return what boto3 and its connections raise; ValueError is that of a region that is not a host's name."""
    require("boto3")
    from boto3.exceptions import Boto3Error  # noqa: PLC0415 - an extra
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    return (Boto3Error, BotoCoreError, ClientError, ValueError, OSError)


def listed(client: Any, bucket: str, prefix: str) -> list[dict[str, Any]]:
    """Return the objects whose keys begin with a prefix, as ListObjectsV2 lists them."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry for page in pages for entry in page.get("Contents", [])]


def opened(client: Any, bucket: str, key: str) -> IO[bytes]:
    """Return a stream of an object's bytes."""
    stream: IO[bytes] = client.get_object(Bucket=bucket, Key=key)["Body"]
    return stream


def upload(
    client: Any,
    bucket: str,
    key: str,
    stream: Stream,
    *,
    size_bytes_max: int = 0,
    on_poll: Callable[[], None] = lambda: None,
    report: Callable[[int], None] = lambda _: None,
) -> StoredObject:
    """Store a stream's bytes as an object, all or none.

    boto3 reads the stream in a thread of its own and sends parts in parallel, few of which are in memory at a time.

    Args:
        client: of `connected`; one upload at a time.
        size_bytes_max: about what the stream has at most; the size of the parts depends on it.
        on_poll: is called in this thread at least five times a second; what it raises ends the upload.
        report: called with the bytes so far, in the thread of boto3.

    Raises what the stream, `on_poll` and boto3 raise, PartsStay where the parts of a failed upload stay.
    """
    from boto3.s3.transfer import TransferConfig, create_transfer_manager  # noqa: PLC0415 - an extra

    part_bytes = max(PART_BYTES_MIN, math.ceil(size_bytes_max / PARTS_MAX))
    parallel = max(1, min(_PARALLEL_MAX, _MEMORY_BYTES // part_bytes))
    config = TransferConfig(
        multipart_threshold=part_bytes,
        multipart_chunksize=part_bytes,
        max_concurrency=parallel,
        preferred_transfer_client="classic",
    )
    config.max_in_memory_upload_chunks = parallel
    reader, watcher = _Reader(stream, report), _Watcher()
    client.meta.events.register("after-call.s3", watcher.note_answer)
    try:
        with create_transfer_manager(client, config) as manager:
            future = reader.future = manager.upload(reader, bucket, key, subscribers=[watcher])
            try:
                while not watcher.done.wait(_POLL_S):
                    on_poll()
                future.result()
            except BaseException:
                future.cancel()
                raise
    except Exception as error:
        if watcher.unfinished_id:
            raise PartsStay(watcher.unfinished_id, error) from error
        raise
    finally:
        client.meta.events.unregister("after-call.s3", watcher.note_answer)
    return StoredObject(size_bytes=reader.size_bytes, version=watcher.version)


class _Watcher:
    """What boto3 does not return of an upload: its end, its id while it is unfinished, the object's version."""

    def __init__(self) -> None:
        self.done = Event()
        self.unfinished_id = ""
        self.version = ""

    def on_done(self, **_: Any) -> None:
        """Note the end, as a subscriber of the transfer."""
        self.done.set()

    def note_answer(self, http_response: Any, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        """Note what the bucket answered to a request."""
        if http_response.status_code >= _REFUSED:
            return
        if model.name == "CreateMultipartUpload":
            self.unfinished_id = parsed["UploadId"]
        elif model.name in {"CompleteMultipartUpload", "AbortMultipartUpload"}:
            self.unfinished_id = ""
        if model.name in {"CompleteMultipartUpload", "PutObject"}:
            self.version = str(parsed.get("VersionId") or "")


class _Reader:
    """The stream as boto3 reads it; it ends when the upload is over, such as by a part that was refused."""

    def __init__(self, stream: Stream, report: Callable[[int], None]) -> None:
        self._stream = stream
        self._report = report
        self._at_end = False
        self.size_bytes = 0
        self.future: Any = None

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer at the end only; without a size what follows a read that came short."""
        if self._at_end:
            return b""
        data = self._stream.read(size, on_poll=self._check)
        self._at_end = len(data) < size
        self.size_bytes += len(data)
        if data:
            self._report(self.size_bytes)
        return data

    def _check(self) -> None:
        if self.future is not None and self.future.done():
            raise InterruptedError("the upload is over before its stream")
