"""A dump of a real server into a bucket of a real S3 server: complete, removed, and never half there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from plain_server import DATASET, run, values
from s3_server import NAME, credentials, s3, s3_address

from volbench.errors import EnvironmentLacks, StepFailed
from volbench.records.steps.dump import DumpStep
from volbench.records.steps.restore import RestoreStep
from volbench.workload.backup import to_s3
from volbench.workload.interface import StepContext
from volbench.workload.registry import workload_for

__all__ = ["credentials", "s3", "s3_address"]
pytestmark = pytest.mark.mysqld
STEP = DumpStep(name="d", to="s3", url=f"s3://{NAME}/backups")


class Uploaded:
    """What the bucket got, as another client sees it just before volbench removes it."""

    def __init__(self, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects: dict[str, bytes] = {}
        real = to_s3.S3Object.remove

        def look_first(s3_object: to_s3.S3Object) -> None:
            for key in keys(s3):
                self.objects[key] = s3.get_object(Bucket=NAME, Key=key)["Body"].read()
            real(s3_object)

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


@pytest.fixture
def theirs(s3: Any) -> Iterator[str]:
    """Somebody's object below the same prefix."""
    s3.put_object(Bucket=NAME, Key="backups/theirs", Body=b"precious")
    yield "backups/theirs"
    assert keys(s3) == ["backups/theirs"]
    assert unfinished(s3) == []


def test_the_object_is_the_dump_and_is_removed(
    s3: Any, theirs: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded = Uploaded(s3, monkeypatch)
    ctx = make_context(dump_folder="volbench-1a2b3c-01-a")
    workload_for(STEP).check(STEP, ctx)
    outcome = run(STEP, ctx)
    key = "backups/volbench-1a2b3c-01-a/d.sql"
    text = uploaded.objects[key]
    assert values(outcome)["dump_bytes"] == len(text) > DATASET.rows * DATASET.tables * 180
    assert text.startswith((b"/*M!999999", b"-- M"))
    assert b"-- Dump completed" in text[-100:]
    assert values(outcome)["dump_s"] > 0
    assert outcome.details["to"] == "s3"
    assert outcome.details["fsync_s"] is None
    assert set(uploaded.objects) == {key, theirs}
    with pytest.raises(StepFailed, match="no dump of mysqldump to restore"):
        run(RestoreStep(name="r"), ctx)


def test_parts_come_together_in_order(
    s3: Any, theirs: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of 5 MiB, the smallest that S3 takes, are sent in parallel; the dump has several."""
    monkeypatch.setattr(to_s3, "PART_BYTES_MIN", 5 << 20)
    alone = make_context()
    step = DumpStep(name="d")
    run(step, alone)
    kept = (alone.volume_dir / "dump-d" / "dump.sql").read_bytes()
    assert len(kept) > 6 << 20, "of one part there is no order"
    uploaded = Uploaded(s3, monkeypatch)
    run(STEP, alone)
    (text,) = (content for key, content in uploaded.objects.items() if key != theirs)
    assert text.rpartition(b"-- Dump completed")[0] == kept.rpartition(b"-- Dump completed")[0]


def test_a_failed_dump_leaves_no_object(
    s3: Any, theirs: str, make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
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


def test_a_cancelled_dump_leaves_no_part(
    s3: Any, theirs: str, make_context: Callable[..., StepContext], children: Callable[[], set[str]]
) -> None:
    """The tables are locked by somebody, so the dump waits when the step is cancelled."""
    cancelled = threading.Event()
    ctx = make_context(cancelled=cancelled)
    with ctx.server.connect("sbtest") as other:
        other.cursor().execute("LOCK TABLES sbtest2 WRITE")
        threading.Timer(2.0, cancelled.set).start()
        with pytest.raises(StepFailed, match="was cancelled"):
            run(STEP, ctx)
    deadline = time.monotonic() + 30
    while children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children() == set()


def test_a_bucket_that_is_not_there_is_named_before_anything_begins(
    s3: Any, make_context: Callable[..., StepContext]
) -> None:
    step = DumpStep(name="d", to="s3", url="s3://no-such-bucket/x")
    with pytest.raises(EnvironmentLacks, match="the bucket does not take the dump") as caught:
        workload_for(step).check(step, make_context())
    assert "NoSuchBucket" in caught.value.evidence
    assert "s3:PutObject" in caught.value.next_step


def test_an_endpoint_that_does_not_answer_is_named(
    make_context: Callable[..., StepContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(EnvironmentLacks, match="the bucket does not take the dump") as caught:
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
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        DumpStep(name="d", **fields)
