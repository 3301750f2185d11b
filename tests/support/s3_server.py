"""Fixtures: a real S3 server on loopback, an empty bucket, and credentials that nobody owns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

NAME = "bucket-of-tests"


@pytest.fixture(scope="module")
def s3_address() -> Iterator[str]:
    """Where it listens, on loopback only."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None of whoever runs the tests, and nobody else is asked for any."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("http_proxy", "HTTP_PROXY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def s3(s3_address: str) -> Iterator[Any]:
    """Another client of the server; the bucket is empty."""
    client = boto3.client("s3", endpoint_url=f"http://{s3_address}", region_name="us-east-1")
    client.create_bucket(Bucket=NAME)
    yield client
    for content in client.list_objects_v2(Bucket=NAME).get("Contents", []):
        client.delete_object(Bucket=NAME, Key=content["Key"])
    client.delete_bucket(Bucket=NAME)
    client.close()
