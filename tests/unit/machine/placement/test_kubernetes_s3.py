"""Dumps to S3 from pods: credentials by reference or by an account's role, in the pods alone that need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_schemas
import pytest
from fake_cluster import FakeCluster

from volbench.cli.cluster.k8s import manifests_of
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.placement.kubernetes.job_access import check_s3
from volbench.machine.placement.kubernetes.options import read_options
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest

IDLE = "{kind: idle, duration: 1s}"
DUMP = "{kind: dump, to: s3, url: s3://backups/night}"
CONCURRENT = f"{{kind: oltp, duration: 9s, concurrent: [{DUMP}]}}"
OPTIONS = (
    "s3_secret=keys",
    "service_account=dumper",
    "s3_region=eu-west-1",
    "s3_endpoint=http://minio.store.svc:9000",
)


def jobs(root: Path, steps: str, *options: str, dataset: str = "{}") -> dict[str, dict[str, Any]]:
    """The Jobs of the preparation and of the first cell, by the agent's command."""
    path = root / "suite.yaml"
    path.write_text(f"schema: 2\nname: backup\ndataset: {dataset}\nsteps: [{steps}]\nrepeats: 1\n")
    request = TargetRequest(target="kubernetes", options=options)
    run = make_plan(path, ["a=storage-class:fast?size=1Gi"], request).run
    made = [manifest for manifest in manifests_of(run, everything=True) if manifest["kind"] == "Job"][1:]
    return {"prepare" if "cell prepare" in str(job) else "run": job for job in made}


def agent_of(job: dict[str, Any]) -> dict[str, Any]:
    containers = job["spec"]["template"]["spec"]["containers"]
    (agent,) = [container for container in containers if container["name"] == "agent"]
    return dict(agent)


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
@pytest.mark.parametrize("steps", [DUMP, CONCURRENT])
def test_pods_that_dump_to_s3_fit_the_api(tmp_path: Path, steps: str, version: str) -> None:
    for job in jobs(tmp_path, steps, *OPTIONS).values():
        kubernetes_schemas.check(job, version)


def test_the_agent_alone_has_the_keys_and_by_reference(tmp_path: Path) -> None:
    job = jobs(tmp_path, DUMP, *OPTIONS)["run"]
    environment = {item["name"]: item for item in agent_of(job)["env"]}
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert environment[key]["valueFrom"] == {"secretKeyRef": {"name": "keys", "key": key}}
    assert environment["AWS_SESSION_TOKEN"]["valueFrom"]["secretKeyRef"]["optional"] is True
    assert environment["AWS_REGION"]["value"] == "eu-west-1"
    assert environment["AWS_ENDPOINT_URL_S3"]["value"] == "http://minio.store.svc:9000"
    pod = job["spec"]["template"]["spec"]
    further = [item for item in (*pod["initContainers"], *pod["containers"]) if item["name"] != "agent"]
    assert "AWS_" not in str(further)
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("dumper", False)
    assert pod["dnsPolicy"] == "ClusterFirst"
    assert job["spec"]["template"]["metadata"]["labels"]["volbench.org/network"] == "s3"


def test_no_further_pod_has_any_of_it(tmp_path: Path) -> None:
    """Neither the preparation of the dataset, nor a cell that dumps to its own volume."""
    on_its_volume = jobs(tmp_path, f"{IDLE}, {{kind: dump}}", *OPTIONS)
    for job in (jobs(tmp_path, DUMP, *OPTIONS)["prepare"], *on_its_volume.values()):
        assert "AWS_" not in str(job)
        pod = job["spec"]["template"]
        assert "serviceAccountName" not in pod["spec"]
        assert "volbench.org/network" not in pod["metadata"]["labels"]


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_pod_that_loads_a_dump_from_a_bucket_has_it_and_no_cell_has(tmp_path: Path, version: str) -> None:
    made = jobs(tmp_path, IDLE, *OPTIONS, dataset="{kind: dump, url: 's3://backups/shop.sql.gz'}")
    pod = made["prepare"]["spec"]["template"]
    assert pod["metadata"]["labels"]["volbench.org/network"] == "s3"
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["dnsPolicy"]) == ("dumper", "ClusterFirst")
    environment = {item["name"]: item for item in agent_of(made["prepare"])["env"]}
    assert environment["AWS_ACCESS_KEY_ID"]["valueFrom"]["secretKeyRef"]["name"] == "keys"
    assert "AWS_" not in str(made["run"])
    kubernetes_schemas.check(made["prepare"], version)


def test_a_role_needs_no_keys(tmp_path: Path) -> None:
    job = jobs(tmp_path, DUMP, "service_account=dumper")["run"]
    assert "AWS_" not in str(job)
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "dumper"


def test_a_secret_a_key_or_an_account_that_is_missing_ends_the_run_before_it_begins() -> None:
    cluster = FakeCluster()
    options = read_options({"s3_secret": "keys", "service_account": "dumper"})
    with pytest.raises(MissingPrerequisite, match="has no secret 'keys'"):
        check_s3(cluster, options)
    cluster.put("secrets/keys", data={"AWS_ACCESS_KEY_ID": "eA=="})
    with pytest.raises(MissingPrerequisite, match="no key 'AWS_SECRET_ACCESS_KEY'") as raised:
        check_s3(cluster, options)
    assert raised.value.evidence == "its keys: AWS_ACCESS_KEY_ID"
    assert "s3_secret=NAME" in raised.value.next_step
    cluster.put("secrets/keys", data={"AWS_ACCESS_KEY_ID": "eA==", "AWS_SECRET_ACCESS_KEY": "eA=="})
    with pytest.raises(MissingPrerequisite, match="has no serviceaccount 'dumper'"):
        check_s3(cluster, options)
    cluster.put("serviceaccounts/dumper")
    check_s3(cluster, options)


def test_a_directory_of_another_volume_is_none_of_a_pod(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs cells that run on this machine"):
        jobs(tmp_path, f"{{kind: dump, to: directory, directory: {tmp_path}}}")
    with pytest.raises(UsageError, match="s3_endpoint"):
        jobs(tmp_path, DUMP, "s3_endpoint=minio:9000")
