"""A dump that is streamed into an object of an S3 bucket, as `mysqldump | aws s3 cp - s3://...` does.

Ctrl-C, a time limit and a part that fails end the dump at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from volbench.core.base import s3
from volbench.core.base.s3 import StoredObject
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError

_EXPECTED_FACTOR = 2
"""A dump may have more bytes than its tables, since values are written as text."""
NOT_UPLOADED = "dump_not_uploaded"
_RIGHTS = (
    "check the bucket name, the region (AWS_REGION), the credentials and the permissions: s3:PutObject,"
    " s3:AbortMultipartUpload, s3:DeleteObject, and s3:DeleteObjectVersion in a bucket with versions; pods get"
    " credentials by --target-option s3_secret=NAME, or a role by service_account=NAME"
)


class DumpStream(s3.Stream, Protocol):
    """Bytes of the dump, and whether more may be waited for."""

    def check_limits(self) -> None:
        """Raise StepFailed at the time limit, or where the step is cancelled."""


class _Trial:
    """A stream of one line."""

    def read(self, _size: int, /, on_poll: Callable[[], None]) -> bytes:  # noqa: ARG002 - nothing is waited for
        return b"volbench\n"

    def check_limits(self) -> None:
        """Take as long as boto3 takes."""


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
        """Do in small what the dump will do: store, remove, abort.

        Raises MissingPrerequisite for what is missing.
        """
        with self._client(MissingPrerequisite, "the bucket does not take the dump") as client:
            stored = self._upload(client, _Trial(), 0, lambda _: None)
        with self._client(MissingPrerequisite, f"volbench cannot remove its object {self.address}") as client:
            self._remove(client, stored)
            unfinished = client.create_multipart_upload(**self._names)
            client.abort_multipart_upload(**self._names, UploadId=unfinished["UploadId"])

    def upload(self, stream: DumpStream, expected_bytes: int, report: Callable[[int], None]) -> StoredObject:
        """Store the stream's bytes, all or none.

        Args:
            stream: what it raises comes out of here.
            expected_bytes: about; the size of the parts depends on it.
            report: called with the bytes so far.

        Raises StepFailed, also while the stream has no more bytes yet.
        """
        with self._client(StepFailed, "the bucket did not take the dump") as client:
            return self._upload(client, stream, _EXPECTED_FACTOR * expected_bytes, report)

    def remove(self, stored: StoredObject) -> None:
        """Remove the object, and not only hide it in a bucket with versions. Raise StepFailed."""
        with self._client(StepFailed, f"volbench cannot remove its object {self.address}") as client:
            self._remove(client, stored)

    def _upload(
        self, client: Any, stream: DumpStream, size_bytes_max: int, report: Callable[[int], None]
    ) -> StoredObject:
        try:
            return s3.upload(
                client,
                self._bucket,
                self._key,
                stream,
                size_bytes_max=size_bytes_max,
                on_poll=stream.check_limits,
                report=report,
            )
        except s3.PartsStay as error:
            raise StepFailed(
                "the upload failed, and its parts stay in the bucket",
                where=self.where,
                cause=NOT_UPLOADED,
                evidence=f"{self.address}: {error}",
                next_step=f"aws s3api abort-multipart-upload --bucket {self._bucket} --key {self._key}"
                f" --upload-id {error.upload_id}",
            ) from error

    def _remove(self, client: Any, stored: StoredObject) -> None:
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
        try:
            with s3.connected(s3.Location(bucket=self._bucket, key=self._key)) as client:
                yield client
        except s3.faults() as error:
            raise failure(
                message,
                where=self.where,
                evidence=f"{self.address}: {error}",
                next_step=_RIGHTS,
                cause=NOT_UPLOADED,
            ) from error
