"""A dump of a real server into a bucket of a real S3 server: complete, removed, and never half there."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from plain_server import DATASET, run, values
from s3_server import NAME, credentials, s3, s3_address

from volbench.core.base import s3 as transfers
from volbench.core.base.s3 import StoredObject
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.restore import RestoreStep
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.measure.workload.backup import to_s3
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.registry import workload_for

__all__ = ["credentials", "s3", "s3_address"]
pytestmark = pytest.mark.mysqld
STEP = DumpStep(name="d", to="s3", url=f"s3://{NAME}/backups")


class Uploaded:
    """What the bucket got, as another client sees it just before volbench removes it."""

    def __init__(self, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects: dict[str, bytes] = {}
        real = to_s3.S3Object.remove

        def look_first(s3_object: to_s3.S3Object, stored: StoredObject) -> None:
            for key in keys(s3):
                self.objects[key] = s3.get_object(Bucket=NAME, Key=key)["Body"].read()
            real(s3_object, stored)

        monkeypatch.setattr(to_s3.S3Object, "remove", look_first)


def keys(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=NAME).get("Contents", [])]


def unfinished(s3: Any) -> list[Any]:
    return list(s3.list_multipart_uploads(Bucket=NAME).get("Uploads", []))


@pytest.fixture(autouse=True)
def endpoint(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user of another store than AWS' sets it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{s3_address}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "xx-none-9")


@pytest.fixture
def foreign_object(s3: Any) -> Iterator[str]:
    """Somebody's object below the same prefix."""
    s3.put_object(Bucket=NAME, Key="backups/theirs", Body=b"precious")
    yield "backups/theirs"
    assert keys(s3) == ["backups/theirs"]
    assert unfinished(s3) == []


def test_the_object_is_the_dump_and_is_removed(
    s3: Any, foreign_object: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded = Uploaded(s3, monkeypatch)
    ctx = make_context(dump_folder="volbench-1a2b3c-01-a")
    workload_for(STEP).check(STEP, ctx)
    outcome = run(STEP, ctx)
    ((key, text),) = [(key, content) for key, content in uploaded.objects.items() if key != foreign_object]
    assert re.fullmatch("backups/volbench-1a2b3c-01-a/d-[0-9a-f]{8}\\.sql", key)
    assert values(outcome)["dump_bytes"] == len(text) > DATASET.rows * DATASET.tables * 180
    assert text.startswith((b"/*M!999999", b"-- M"))
    assert b"-- Dump completed" in text[-100:]
    assert values(outcome)["dump_s"] > 0
    assert outcome.details["to"] == "s3"
    assert outcome.details["fsync_s"] is None
    assert outcome.notes == ("dump_s ends when the bucket has the whole object, which volbench then removed",)
    with pytest.raises(StepFailed, match="no dump of mysqldump to restore"):
        run(RestoreStep(name="r"), ctx)


def test_parts_come_together_in_order(
    s3: Any, foreign_object: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of 5 MiB, the smallest that S3 takes, are sent in parallel; the dump has several."""
    in_smallest_parts(monkeypatch)
    alone = make_context()
    step = DumpStep(name="d")
    run(step, alone)
    data = (alone.volume_dir / "dump-d" / "dump.sql").read_bytes()
    assert len(data) > 6 << 20, "of one part there is no order"
    uploaded = Uploaded(s3, monkeypatch)
    run(STEP, alone)
    (text,) = (content for key, content in uploaded.objects.items() if key != foreign_object)
    assert text.rpartition(b"-- Dump completed")[0] == data.rpartition(b"-- Dump completed")[0]


def test_a_failed_dump_leaves_no_object(
    s3: Any, foreign_object: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """mysqldump ends with an error after half of its output: the upload is complete, the dump is not."""
    ctx = make_context()
    ctx.server.query("CREATE VIEW sbtest.zz_broken AS SELECT id FROM sbtest.sbtest1")
    ctx.server.query("ALTER TABLE sbtest.sbtest1 RENAME COLUMN id TO id2")
    try:
        with pytest.raises(StepFailed, match="dump ended with exit code 2"):
            run(STEP, ctx)
    finally:
        ctx.server.query("ALTER TABLE sbtest.sbtest1 RENAME COLUMN id2 TO id")
        ctx.server.query("DROP VIEW sbtest.zz_broken")


def in_smallest_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 takes no smaller part, but for the last."""
    monkeypatch.setattr(transfers, "PART_BYTES_MIN", 5 << 20)


def begun(s3: Any) -> None:
    """Wait until the upload of a dump has a part, and not that of a check."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for upload in unfinished(s3):
            names = {"Bucket": NAME, "Key": upload["Key"], "UploadId": upload["UploadId"]}
            with suppress(s3.exceptions.NoSuchUpload):  # the check's, which ended meanwhile
                if any(piece["Size"] >= 5 << 20 for piece in s3.list_parts(**names).get("Parts", [])):
                    return
        time.sleep(0.05)
    raise AssertionError("no part was stored")


@contextmanager
def waiting_dump(ctx: StepContext) -> Iterator[None]:
    """The second table is locked by somebody: a dump stands still after the first, which has more than one part."""
    with ctx.server.connect("sbtest") as second:
        second.cursor().execute("CREATE TABLE aa SELECT * FROM sbtest1 UNION ALL SELECT * FROM sbtest2")
        second.cursor().execute("LOCK TABLES sbtest2 WRITE")
        try:
            yield
        finally:
            second.cursor().execute("UNLOCK TABLES")
            second.cursor().execute("DROP TABLE aa")


def end_when_begun(s3: Any, end: Callable[[], None]) -> threading.Thread:
    def watch() -> None:
        begun(s3)
        end()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_cancelled_dump_leaves_no_part(
    s3: Any,
    foreign_object: str,
    make_context: Callable[..., StepContext],
    children: Callable[[], set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_smallest_parts(monkeypatch)
    cancelled = threading.Event()
    ctx = make_context(cancelled=cancelled)
    with waiting_dump(ctx):
        watch = end_when_begun(s3, cancelled.set)
        with pytest.raises(StepFailed, match="was cancelled"):
            run(STEP, ctx)
        watch.join()
    assert children() == set()


def test_ctrl_c_ends_a_dump_at_once_and_leaves_no_part(
    s3: Any,
    foreign_object: str,
    make_context: Callable[..., StepContext],
    children: Callable[[], set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing but the signal could end it: the dump waits for a lock, with hours left of its time."""
    in_smallest_parts(monkeypatch)
    ctx = make_context()
    with waiting_dump(ctx):
        watch = end_when_begun(s3, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run(STEP, ctx)
        watch.join()
    assert children() == set()


def test_a_part_that_is_refused_ends_the_dump_at_once(
    s3: Any, foreign_object: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after hours, when mysqldump has written all: here it waits for a lock that nobody gives back."""
    in_smallest_parts(monkeypatch)
    ctx = make_context()
    real = to_s3.S3Object._client

    @contextmanager
    def refusing(s3_object: to_s3.S3Object, failure: Any, message: str) -> Iterator[Any]:
        with real(s3_object, failure, message) as client:
            if failure is StepFailed:  # and not the check beforehand
                client.meta.events.register("before-call.s3.UploadPart", refuse)
            yield client

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "The token has expired."}}, "UploadPart")

    monkeypatch.setattr(to_s3.S3Object, "_client", refusing)
    with waiting_dump(ctx), pytest.raises(StepFailed, match="the bucket did not take the dump") as caught:
        run(STEP, ctx)
    assert "ExpiredToken" in caught.value.evidence


def test_no_version_stays_in_a_bucket_that_keeps_versions(
    s3: Any, s3_address: str, make_context: Callable[..., StepContext]
) -> None:
    """Without its version, a delete hides the object and the dump stays in the bucket."""
    bucket = "bucket-with-versions"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    step = DumpStep(name="d", to="s3", url=f"s3://{bucket}")
    ctx = make_context()
    workload_for(step).check(step, ctx)
    run(step, ctx)
    listed = s3.list_object_versions(Bucket=bucket)
    assert "Versions" not in listed
    assert "DeleteMarkers" not in listed
    s3.delete_bucket(Bucket=bucket)


def test_an_object_that_cannot_be_removed_is_named_and_the_measurement_kept(
    s3: Any, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DeleteObject")

    monkeypatch.setattr(to_s3.S3Object, "_remove", refuse)
    ctx = make_context()
    with pytest.raises(MissingPrerequisite, match="cannot remove its object"):
        workload_for(STEP).check(STEP, ctx)
    (of_check,) = keys(s3)
    outcome = workload_for(STEP).run(STEP, ctx)  # a right that is lost between the two
    (key,) = set(keys(s3)) - {of_check}
    (note,) = outcome.notes
    assert note.startswith(f"volbench cannot remove its object s3://{NAME}/{key}: ")
    assert "AccessDenied" in note
    assert values(outcome)["dump_s"] > 0


def test_a_bucket_that_is_not_there_is_named_before_anything_begins(
    s3: Any, make_context: Callable[..., StepContext]
) -> None:
    step = DumpStep(name="d", to="s3", url="s3://no-such-bucket/x")
    with pytest.raises(MissingPrerequisite, match="the bucket does not take the dump") as caught:
        workload_for(step).check(step, make_context())
    assert "NoSuchBucket" in caught.value.evidence
    assert "s3:PutObject" in caught.value.next_step


def test_an_endpoint_that_does_not_answer_is_named(
    make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(MissingPrerequisite, match="the bucket does not take the dump") as caught:
        workload_for(STEP).check(STEP, make_context())
    assert "127.0.0.1:9" in caught.value.evidence


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"to": "s3"}, "belong together"),
        ({"url": "s3://b/p"}, "belong together"),
        ({"to": "s3", "url": "s3://b/p", "tool": "mydumper"}, "is for mysqldump"),
        ({"to": "s3", "url": "s3://key:secret@b/p"}, "pattern"),
        ({"to": "s3", "url": "https://b/p"}, "pattern"),
        ({"to": "s3", "url": "s3://[b]/p"}, "pattern"),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        DumpStep(name="d", **fields)
