"""A dump from a pod of a cluster to S3: keys by a Secret, an endpoint; the server is moto's, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import cluster_run
import pytest
from cluster_run import ClusterBench, kubectl
from live_run import FINISHED
from moto.server import ThreadedMotoServer

from volbench.results.store.run_directory import find_runs

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.timeout(600),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="its pods reach this machine"),
]
BUCKET = "backups"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "a-key-of-nobody"}
VOLUME = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}?size=1Gi"}


@pytest.fixture
def address() -> Iterator[str]:
    """Where pods reach it: the address of the lab's API server, on a bridge of this machine."""
    api_server = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    server = ThreadedMotoServer(str(urlsplit(api_server).hostname), 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(address: str) -> Any:
    """A client with an empty bucket."""
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
    client.create_bucket(Bucket=BUCKET)
    return client


def test_a_dump_in_a_bucket_is_loaded_by_a_pod_that_leaves_nothing_of_it(
    cluster: ClusterBench, address: str, s3: Any
) -> None:
    rows = "".join(f"INSERT INTO t VALUES ({number});\n" for number in range(500))
    s3.put_object(Bucket=BUCKET, Key="shop.sql", Body=f"CREATE TABLE t (id INT PRIMARY KEY);\n{rows}".encode())
    literals = [f"--from-literal={key}={value}" for key, value in KEYS.items()]
    kubectl("create", "secret", "generic", "reader", *literals, "-n", cluster.namespace)
    options = ["s3_secret=reader", "s3_region=us-east-1", f"s3_endpoint={address}"]
    dataset = f"dataset={{kind: dump, url: s3://{BUCKET}/shop.sql, schema: shop, size: 1MiB}}"
    steps = "steps=[{kind: idle, duration: 1s}]"
    ended = cluster.end(cluster.start(dataset, steps, "repeats=1", options=options, volumes=VOLUME))
    assert ended.code in FINISHED, ended.output
    run = max(find_runs(cluster.results), key=lambda run: run.path.stat().st_mtime)
    (template,) = run.path.glob("cells/template*/**/template.json")
    assert '"rows": 500' in template.read_text()
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in ended.output + (run.path / "run.json").read_text()
    assert cluster.leftovers() == []


def test_a_cell_dumps_to_a_bucket_with_keys_of_a_secret(cluster: ClusterBench, address: str, s3: Any) -> None:
    """And without them, or without the bucket, the message says what pods lack."""
    options = ["s3_secret=keys", "s3_region=us-east-1", f"s3_endpoint={address}"]
    steps = f"steps=[{{kind: dump, to: s3, url: s3://{BUCKET}/night}}]"
    settings = ("dataset.rows=2000", "repeats=1")
    lacking = cluster.end(cluster.start(steps, *settings, options=options, volumes=VOLUME))
    assert (lacking.code, "has no secret 'keys'" in lacking.output) == (3, True), lacking.output
    literals = [f"--from-literal={key}={value}" for key, value in KEYS.items()]
    kubectl("create", "secret", "generic", "keys", *literals, "-n", cluster.namespace)
    before = {run.path for run in find_runs(cluster.results)}
    ended = cluster.end(cluster.start(steps, *settings, options=options, volumes=VOLUME))
    assert ended.code in FINISHED, ended.output
    (run,) = [run for run in find_runs(cluster.results) if run.path not in before]
    (result,) = run.results()
    (dump,) = [step for step in result.steps if step.kind == "dump"]
    assert dump.metrics["dump_bytes"].value > 2000 * 180
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix="night"), "the step removes its object"
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in ended.output + (run.path / "run.json").read_text()
    assert cluster.leftovers() == []
