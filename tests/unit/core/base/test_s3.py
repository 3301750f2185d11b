"""Uploads by boto3 to a real S3 server on this machine: all or none, and at once when something ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from s3_server import NAME, credentials, s3, s3_address

from volbench.core.base.s3 import Location, PartsStay, connected, faults, upload
from volbench.errors import UsageError

__all__ = ["credentials", "s3", "s3_address"]
MIB = 1 << 20


class Bytes:
    """A stream that has these bytes, then waits for `end`, calling `on_poll`."""

    def __init__(self, data: bytes, end: threading.Event | None = None) -> None:
        self._unread = data
        self._end = end
        self.waits = threading.Event()

    def read(self, size: int, /, on_poll: Callable[[], None]) -> bytes:
        data, self._unread = self._unread[:size], self._unread[size:]
        while len(data) < size and self._end is not None and not self._end.wait(0.02):
            self.waits.set()
            on_poll()
        return data


@pytest.fixture
def client(s3_address: str, s3: Any) -> Iterator[Any]:
    location = Location.of(f"s3://{NAME}?region=us-east-1&scheme=http&endpoint_override={s3_address}", where="test")
    with connected(location) as opened:
        yield opened


def stored(s3: Any, key: str) -> bytes:
    data: bytes = s3.get_object(Bucket=NAME, Key=key)["Body"].read()
    return data


def left(s3: Any) -> tuple[list[Any], list[Any]]:
    """Objects and unfinished uploads of the bucket."""
    objects = s3.list_objects_v2(Bucket=NAME).get("Contents", [])
    return objects, s3.list_multipart_uploads(Bucket=NAME).get("Uploads", [])


@pytest.mark.parametrize("size_bytes", [0, 9, 16 * MIB, 16 * MIB + 1, 40 * MIB])
def test_an_object_has_the_bytes_of_its_stream_in_order(client: Any, s3: Any, size_bytes: int) -> None:
    data = b"".join(number.to_bytes(8, "big") for number in range(size_bytes // 8 + 1))[:size_bytes]
    sizes: list[int] = []
    answer = upload(client, NAME, "a/b", Bytes(data), report=sizes.append)
    assert answer.size_bytes == size_bytes
    assert answer.version in {"", "null"}
    assert stored(s3, "a/b") == data
    assert sizes == sorted(sizes)
    assert sizes[-1:] == ([size_bytes] if size_bytes else [])
    assert left(s3)[1] == []


def refuse(**_: Any) -> None:
    raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "The token has expired."}}, "UploadPart")


def test_a_refused_part_ends_the_upload_while_the_stream_waits(client: Any, s3: Any) -> None:
    client.meta.events.register("before-call.s3.UploadPart", refuse)
    with pytest.raises(ClientError, match="ExpiredToken"):
        upload(client, NAME, "a", Bytes(b"x" * 20 * MIB, end=threading.Event()))
    assert left(s3) == ([], [])


def test_parts_that_cannot_be_removed_are_named_by_their_upload(client: Any, s3: Any) -> None:
    for call in ("UploadPart", "AbortMultipartUpload"):
        client.meta.events.register(f"before-call.s3.{call}", refuse)
    with pytest.raises(PartsStay, match="ExpiredToken") as raised:
        upload(client, NAME, "a", Bytes(b"x" * 20 * MIB))
    (unfinished,) = left(s3)[1]
    assert raised.value.upload_id == unfinished["UploadId"]
    s3.abort_multipart_upload(Bucket=NAME, Key="a", UploadId=raised.value.upload_id)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_is_raised_between_polls_ends_the_upload(client: Any, s3: Any, error: type[BaseException]) -> None:
    """As by Ctrl-C, or at a time limit: the stream waits, and nothing else would end it."""
    stream = Bytes(b"x" * 20 * MIB, end=threading.Event())

    def on_poll() -> None:
        if stream.waits.is_set():
            raise error

    with pytest.raises(error):
        upload(client, NAME, "a", stream, on_poll=on_poll)
    assert left(s3) == ([], [])


def test_a_stream_that_fails_leaves_nothing(client: Any, s3: Any) -> None:
    class Failing(Bytes):
        def read(self, size: int, /, on_poll: Callable[[], None]) -> bytes:
            if not (data := super().read(size, on_poll)):
                raise ZeroDivisionError
            return data

    with pytest.raises(ZeroDivisionError):
        upload(client, NAME, "a", Failing(b"x" * 32 * MIB))
    assert left(s3) == ([], [])


def test_a_bucket_that_does_not_exist_is_a_fault(client: Any) -> None:
    with pytest.raises(faults(), match="does not exist"):
        upload(client, "no-such-bucket", "a", Bytes(b"x"))


def test_the_version_is_that_of_the_object(client: Any, s3: Any) -> None:
    bucket = "bucket-with-versions"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    answers = [upload(client, bucket, "a", Bytes(b"x" * size_bytes)) for size_bytes in (1, 20 * MIB)]
    versions = {entry["VersionId"] for entry in s3.list_object_versions(Bucket=bucket)["Versions"]}
    assert {answer.version for answer in answers} == versions
    for version in versions:
        s3.delete_object(Bucket=bucket, Key="a", VersionId=version)
    s3.delete_bucket(Bucket=bucket)


@pytest.mark.parametrize("address", ["s3://b/x?regoin=a", "https://b/x", "s3:///x", "b/x"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="s3://BUCKET/PREFIX"):
        Location.of(address, where="test")


def test_an_address_names_bucket_key_region_and_endpoint() -> None:
    location = Location.of("s3://b/x/y/?region=eu-west-1&endpoint_override=h:1", where="test")
    assert location == Location(bucket="b", key="x/y/", region="eu-west-1", endpoint="https://h:1")
    assert str(location) == "s3://b/x/y"
