"""A dump that is streamed into an object of an S3 bucket, as `mysqldump | aws s3 cp - s3://...` does.

Parts are sent in parallel by boto3, and few are in memory at a time. The stream is read in the caller's own thread,
so that Ctrl-C, a time limit and a part that fails end the dump at once. Credentials, region and endpoint come from
where AWS' own tools look for them: environment, ~/.aws, a role.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from volbench.core.base.extras import require
from volbench.core.base.units import MIB
from volbench.errors import EnvironmentLacks, StepFailed, VolbenchError

PARTS_MAX = 10_000
"""Of one object. Source: Amazon S3 User Guide, multipart upload limits."""
PART_BYTES_MIN = 16 * MIB
_MEMORY_BYTES = 512 * MIB
_PARALLEL_MAX = 4
_EXPECTED_FACTOR = 2
"""A dump may have more bytes than its tables, since values are written as text."""
_POLL_S = 0.2
_CONNECT_S, _ANSWER_S, _ATTEMPTS = 10, 30, 3
NOT_UPLOADED = "dump_not_uploaded"
_RIGHTS = (
    "check the bucket name, the region (AWS_REGION), the credentials and the permissions: s3:PutObject,"
    " s3:AbortMultipartUpload, s3:DeleteObject, and s3:DeleteObjectVersion in a bucket with versions"
)


class Stream(Protocol):
    """Bytes of the dump, and whether more may be waited for."""

    def read(self, size: int, /, on_poll: Callable[[], None]) -> bytes:
        """Return `size` bytes, fewer at the end only. Raise StepFailed, and what `on_poll` raises meanwhile."""

    def check_limits(self) -> None:
        """Raise StepFailed at the time limit, or where the step is cancelled."""


class _Trial:
    """A stream of one line."""

    def __init__(self) -> None:
        self._unread = b"volbench\n"

    def read(self, _size: int, /, on_poll: Callable[[], None]) -> bytes:  # noqa: ARG002 - nothing is waited for
        data, self._unread = self._unread, b""
        return data

    def check_limits(self) -> None:
        """Take as long as boto3 takes."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An object that the bucket has; `version` is empty in a bucket without versions."""

    size_bytes: int
    version: str


@dataclass(frozen=True, kw_only=True)
class S3Object:
    """One object. Other objects of the bucket are never touched.

    Args:
        url: of a prefix, s3://BUCKET or s3://BUCKET/PREFIX.
        name: of the object below it.
        where: the step, for errors.
    """

    url: str
    name: str
    where: str

    @property
    def address(self) -> str:
        """Return the object's own address."""
        return f"s3://{self._bucket}/{self._key}"

    def check(self) -> None:
        """Do in small what the dump will do: store, remove, abort. Raise EnvironmentLacks for what is missing."""
        with self._client(EnvironmentLacks, "the bucket does not take the dump") as client:
            stored = self._upload(client, _Trial(), PART_BYTES_MIN, lambda _: None)
        with self._client(EnvironmentLacks, f"volbench cannot remove its object {self.address}") as client:
            self._remove(client, stored)
            unfinished = client.create_multipart_upload(**self._names)
            client.abort_multipart_upload(**self._names, UploadId=unfinished["UploadId"])

    def upload(self, stream: Stream, expected_bytes: int, report: Callable[[int], None]) -> Stored:
        """Store the stream's bytes, all or none.

        Args:
            stream: what it raises comes out of here.
            expected_bytes: about; the size of the parts depends on it.
            report: called with the bytes so far.

        Raises StepFailed, also while the stream has no more bytes yet.
        """
        part_bytes = max(PART_BYTES_MIN, math.ceil(_EXPECTED_FACTOR * expected_bytes / PARTS_MAX))
        with self._client(StepFailed, "the bucket did not take the dump") as client:
            return self._upload(client, stream, part_bytes, report)

    def remove(self, stored: Stored) -> None:
        """Remove the object, and not only hide it in a bucket with versions. Raise StepFailed."""
        with self._client(StepFailed, f"volbench cannot remove its object {self.address}") as client:
            self._remove(client, stored)

    def _upload(self, client: Any, stream: Stream, part_bytes: int, report: Callable[[int], None]) -> Stored:
        upload_id = client.create_multipart_upload(**self._names)["UploadId"]
        upload = {**self._names, "UploadId": upload_id}
        parallel = max(1, min(_PARALLEL_MAX, _MEMORY_BYTES // part_bytes))
        sent: list[Future[Any]] = []
        size = 0
        with ThreadPoolExecutor(parallel) as pool:
            try:
                while data := stream.read(part_bytes, on_poll=lambda: _raise_failed(sent)):
                    size += len(data)
                    report(size)
                    _wait_for_room(sent, parallel, stream)
                    sent.append(pool.submit(client.upload_part, **upload, PartNumber=len(sent) + 1, Body=data))
                _wait_for_room(sent, 1, stream)
                tags = [future.result()["ETag"] for future in sent]
                stored = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
                done = client.complete_multipart_upload(**upload, MultipartUpload={"Parts": stored})
            except BaseException as error:
                pool.shutdown(cancel_futures=True)  # a part that arrives after the end of its upload would stay
                self._abort(client, upload_id, error)
                raise
        return Stored(size_bytes=size, version=str(done.get("VersionId") or ""))

    def _abort(self, client: Any, upload_id: str, error: BaseException) -> None:
        """End the upload. Raise StepFailed with the command for the parts that stay; an interrupt goes on."""
        try:
            client.abort_multipart_upload(**self._names, UploadId=upload_id)
        except _faults() as failure:
            if isinstance(error, Exception):
                raise StepFailed(
                    "the upload failed, and its parts stay in the bucket",
                    where=self.where,
                    cause=NOT_UPLOADED,
                    evidence=f"{self.address}: {error}; {failure}",
                    next_step=f"aws s3api abort-multipart-upload --bucket {self._bucket} --key {self._key}"
                    f" --upload-id {upload_id}",
                ) from error

    def _remove(self, client: Any, stored: Stored) -> None:
        client.delete_object(**self._names, **({"VersionId": stored.version} if stored.version else {}))

    @property
    def _names(self) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._key}

    @property
    def _bucket(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def _key(self) -> str:
        prefix = urlsplit(self.url).path.strip("/")
        return f"{prefix}/{self.name}" if prefix else self.name

    @contextmanager
    def _client(self, failure: type[VolbenchError], message: str) -> Iterator[Any]:
        require("boto3")
        import boto3  # noqa: PLC0415 - an extra
        from botocore.config import Config  # noqa: PLC0415

        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_ANSWER_S,
            retries={"total_max_attempts": _ATTEMPTS},
            max_pool_connections=_PARALLEL_MAX,
        )
        try:
            session = boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
            client = session.client("s3", config=config)
            try:
                yield client
            finally:
                client.close()
        except _faults() as error:
            raise failure(
                message,
                where=self.where,
                evidence=f"{self.address}: {error}",
                next_step=_RIGHTS,
                cause=NOT_UPLOADED,
            ) from error


def _faults() -> tuple[type[Exception], ...]:
    """Return what boto3 raises; ValueError is that of a region that is no host's name."""
    from boto3.exceptions import Boto3Error  # noqa: PLC0415 - an extra
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    return (Boto3Error, BotoCoreError, ClientError, ValueError)


def _raise_failed(sent: list[Future[Any]]) -> None:
    """Raise what a part raised that did not arrive."""
    for future in sent:
        if future.done():
            future.result()


def _wait_for_room(sent: list[Future[Any]], parallel: int, stream: Stream) -> None:
    """Wait until fewer than `parallel` parts are on their way. Raise what a part or the stream raises."""
    while True:
        _raise_failed(sent)
        under_way = [future for future in sent if not future.done()]
        if len(under_way) < parallel:
            return
        stream.check_limits()
        wait(under_way, timeout=_POLL_S, return_when=FIRST_COMPLETED)
