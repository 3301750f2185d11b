"""A dump that is streamed into an object of an S3 bucket, as `mysqldump | aws s3 cp - s3://...` does.

boto3 sends parts in parallel and holds ten of them in memory at most. Credentials, region and endpoint come from
where AWS' own tools look for them: environment, ~/.aws, a role.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from volbench.base.extras import require
from volbench.base.units import MIB
from volbench.errors import EnvironmentLacks

PARTS_MAX = 10_000
"""Of one object. Source: Amazon S3 User Guide, multipart upload limits."""
PART_BYTES_MIN = 8 * MIB
"""boto3's own default, above the limit of 5 MiB."""
_EXPECTED_FACTOR = 4
"""A dump has more bytes than its tables where values are written as text."""
NOT_UPLOADED = "dump_not_uploaded"


class Stream(Protocol):
    """Bytes of the dump."""

    def read(self, size: int = -1, /) -> bytes:
        """Return exactly `size` bytes, fewer at the end only; negative: all."""


class CountedStream:
    """A stream that reports how many of its bytes were read.

    Args:
        stream: of the dump.
        report: called with the bytes so far.
    """

    def __init__(self, stream: Stream, report: Callable[[int], None]) -> None:
        self._stream = stream
        self._report = report
        self.size_bytes = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return what the stream returns."""
        data = self._stream.read(size)
        self.size_bytes += len(data)
        self._report(self.size_bytes)
        return data


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
        """Write an empty object and remove it. Raise EnvironmentLacks if the bucket or the rights are missing."""
        with self._client() as client:
            client.put_object(Bucket=self._bucket, Key=self._key, Body=b"")
        self.remove()

    def upload(self, stream: Stream, expected_bytes: int) -> int:
        """Store the stream's bytes and return their number as the bucket has it.

        Args:
            stream: read in a thread of boto3. What it raises comes out of here, and no object is left.
            expected_bytes: about; the size of the parts depends on it.

        Raises EnvironmentLacks.
        """
        with self._client() as client:
            from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 - an extra

            part_bytes = max(PART_BYTES_MIN, math.ceil(_EXPECTED_FACTOR * expected_bytes / PARTS_MAX))
            config = TransferConfig(multipart_threshold=part_bytes, multipart_chunksize=part_bytes)
            client.upload_fileobj(stream, self._bucket, self._key, Config=config)
            return int(client.head_object(Bucket=self._bucket, Key=self._key)["ContentLength"])

    def remove(self) -> None:
        """Remove the object, if there is one. Raise EnvironmentLacks."""
        with self._client() as client:
            client.delete_object(Bucket=self._bucket, Key=self._key)

    @property
    def _bucket(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def _key(self) -> str:
        prefix = urlsplit(self.url).path.strip("/")
        return f"{prefix}/{self.name}" if prefix else self.name

    @contextmanager
    def _client(self) -> Iterator[Any]:
        require("boto3")
        import boto3  # noqa: PLC0415 - an extra
        from boto3.exceptions import Boto3Error  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            client = boto3.Session().client("s3")
            try:
                yield client
            finally:
                client.close()
        except (
            Boto3Error,
            BotoCoreError,
            ClientError,
            ValueError,
        ) as error:  # ValueError: of a wrong region's name
            raise EnvironmentLacks(
                "the bucket does not take the dump", where=self.where, evidence=f"{self.address}: {error}",
                next_step="mend the bucket's name, the region (AWS_REGION), the credentials or the rights:"
                " s3:PutObject, s3:GetObject, s3:DeleteObject, s3:AbortMultipartUpload",
                cause=NOT_UPLOADED,
            ) from error  # fmt: skip
