"""A Job next to a database: its manifest fits the API and Pod Security, and what is missing is named before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kubernetes_schemas
import pytest
from fake_cluster import NAMESPACES, FakeCluster

from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.placement.kubernetes.database_job import (
    JOB_RESULTS,
    POD_RESULTS,
    DatabaseJob,
    database_job,
    plain,
    submit_command,
)
from volbench.machine.placement.kubernetes.job_access import (
    JobMount,
    PasswordKey,
    parse_mounts,
    parse_password_key,
    service_of,
)
from volbench.machine.placement.kubernetes.leftovers import delete_runs, runs_in
from volbench.machine.placement.kubernetes.options import (
    OF_JOBS,
    KubernetesOptions,
    parse_job_options,
    read_options,
)

OBSERVE = DatabaseJob(
    name="volbench-observe-1",
    image="reg.example/v:1",
    arguments=("observe", "--server=mysql://watch@db:3306", "--for=30m", f"--out={POD_RESULTS}"),
    directory=JOB_RESULTS,
    texts={"plan.yaml": "text"},
    files={"/home/dba/logs/slow.log": b"x"},
    directory_of_files="/volbench/own/home/dba",
    hosts=("db",),
    password=PasswordKey(secret="watch", key="password"),
    mounts=(
        JobMount(kind="secret", name="tls"),
        JobMount(kind="configmap", name="lua"),
        JobMount(kind="pvc", name="logs"),
    ),
    service_account="reader",
    cpu="2",
    options=KubernetesOptions(
        pull_secret="registry",
        selector="pool=batch",
        node="node-7",
        tolerations="dedicated=batch:NoSchedule",
        priority_class="low",
        s3_secret="bucket",
        s3_region="eu-west-1",
    ),
)


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
@pytest.mark.parametrize("job", [OBSERVE, replace(OBSERVE, password=None, mounts=(), service_account="", cpu="")])
def test_the_job_fits_the_api(job: DatabaseJob, version: str) -> None:
    kubernetes_schemas.check(database_job(job), version)


def test_the_password_is_a_reference_to_a_secret_and_its_files_are_read_only() -> None:
    pod = pod_of(database_job(OBSERVE))
    (container,) = pod["containers"]
    (password,) = [item for item in container["env"] if item["name"] == "VOLBENCH_MYSQL_PASSWORD"]
    assert password == {
        "name": "VOLBENCH_MYSQL_PASSWORD",
        "valueFrom": {"secretKeyRef": {"name": "watch", "key": "password"}},
    }
    mounted = {item["mountPath"]: item for item in container["volumeMounts"]}
    volumes = {item["name"]: item for item in pod["volumes"]}
    for name, kind in (("tls", "secret"), ("lua", "configMap"), ("logs", "persistentVolumeClaim")):
        mount = mounted[f"/volbench/mounts/{name}"]
        assert mount["readOnly"] is True
        assert name in str(volumes[mount["name"]][kind])
    assert mounted["/volbench/own"]["readOnly"] is True
    assert container["workingDir"] == "/volbench/own/home/dba"
    assert volumes["results"]["persistentVolumeClaim"]["claimName"] == "volbench-results"


def test_the_pod_is_restricted_and_has_no_rights_in_the_cluster() -> None:
    pod = pod_of(database_job(OBSERVE))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"] == {"memory": "2Gi", "cpu": "2"}
    alone = pod_of(database_job(replace(OBSERVE, service_account="", cpu="")))
    assert "serviceAccountName" not in alone, "the namespace of a database has no account of volbench"
    assert alone["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}, "a CPU limit would throttle a load"


def test_the_pod_runs_where_its_options_say() -> None:
    pod = pod_of(database_job(OBSERVE))
    assert pod["nodeSelector"] == {"pool": "batch", "kubernetes.io/hostname": "node-7"}
    assert pod["tolerations"][0] == {
        "key": "dedicated",
        "operator": "Equal",
        "value": "batch",
        "effect": "NoSchedule",
    }
    assert pod["priorityClassName"] == "low"
    alone = pod_of(database_job(replace(OBSERVE, options=KubernetesOptions())))
    assert not {"nodeSelector", "priorityClassName", "imagePullSecrets"} & set(alone)


def test_keys_of_the_bucket_for_results_are_references_to_a_secret() -> None:
    (container,) = pod_of(database_job(OBSERVE))["containers"]
    variables = {item["name"]: item for item in container["env"]}
    assert variables["AWS_REGION"]["value"] == "eu-west-1"
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert variables[key]["valueFrom"]["secretKeyRef"] == {"name": "bucket", "key": key}


VALUES = {
    "context": "lab",
    "namespace": "shop",
    "labels": "team=dba",
    "annotations": "note=x",
    "queue": "batch",
    "tolerations": "dedicated=batch:NoSchedule",
    "selector": "pool=batch",
    "s3_endpoint": "http://minio.store.svc:9000",
}


@pytest.mark.parametrize("key", sorted(OF_JOBS - {"context", "namespace", "labels", "annotations", "queue"}))
def test_each_option_of_a_job_changes_its_manifest(key: str) -> None:
    options = read_options(parse_job_options([f"{key}={VALUES.get(key, 'some')}"]))
    assert database_job(replace(OBSERVE, options=options)) != database_job(
        replace(OBSERVE, options=KubernetesOptions())
    )


def test_a_pod_that_fails_is_not_tried_again_and_one_that_is_drained_is_replaced() -> None:
    """A no-go is a result; a database is not read again because somebody else's node was drained in vain."""
    spec = database_job(OBSERVE)["spec"]
    assert spec["backoffLimit"] == 0
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore"]


def test_kubernetes_puts_no_value_into_a_users_argument() -> None:
    assert plain("p95 > $(VOLBENCH_MYSQL_PASSWORD)") == "p95 > $$(VOLBENCH_MYSQL_PASSWORD)"
    assert plain("a$b$$") == "a$$b$$$$", "two stand for one"


@pytest.fixture
def cluster() -> FakeCluster:
    """A namespace with the Service, and with all that the Job is to be given."""
    made = FakeCluster()
    made.put("services/db")
    made.put("secrets/watch", data={"password": "c2VjcmV0", "user": "d2F0Y2g="})
    made.put("secrets/bucket", data={"AWS_ACCESS_KEY_ID": "QQ==", "AWS_SECRET_ACCESS_KEY": "Qg=="})
    for path in ("secrets/tls", "configmaps/lua", "persistentvolumeclaims/logs", "serviceaccounts/reader"):
        made.put(path)
    return made


def made_by_job(cluster: FakeCluster) -> list[str]:
    return [path for path in cluster.objects if "volbench-" in path]


def test_it_is_submitted_listed_and_deleted_as_runs_are(cluster: FakeCluster) -> None:
    assert submit_command(cluster, OBSERVE) == "volbench-observe-1"
    job = cluster.objects[cluster.jobs("volbench-observe-1")]
    files = cluster.objects[cluster.object_path("configmaps/volbench-observe-1")]
    assert (files["data"], files["binaryData"]) == ({"plan.yaml": "text"}, {"file-1": "eA=="})
    assert files["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert "c2VjcmV0" not in str(job) + str(files)
    (listed,) = runs_in(cluster)
    assert (listed.run_id, listed.jobs, listed.claims) == ("volbench-observe-1", ("volbench-observe-1",), ())
    delete_runs(cluster, ["volbench-observe-1"])
    assert [path.rpartition("/")[2] for path in made_by_job(cluster)] == ["volbench-results"]


MISSING = [
    ("secrets/watch", "has no secret 'watch'"),
    ("secrets/tls", "has no secret 'tls'"),
    ("secrets/bucket", "has no secret 'bucket'"),
    ("configmaps/lua", "has no configmap 'lua'"),
    ("persistentvolumeclaims/logs", "has no persistentvolumeclaim 'logs'"),
    ("serviceaccounts/reader", "has no serviceaccount 'reader'"),
]


@pytest.mark.parametrize(("path", "message"), MISSING)
def test_what_the_namespace_lacks_is_named_before_anything_is_made(
    cluster: FakeCluster, path: str, message: str
) -> None:
    cluster.absent = (cluster.object_path(path),)
    with pytest.raises(MissingPrerequisite, match=message) as raised:
        submit_command(cluster, OBSERVE)
    assert "kubectl get" in raised.value.next_step
    assert made_by_job(cluster) == []


def test_a_key_that_the_secret_lacks_is_named_with_those_that_it_has(cluster: FakeCluster) -> None:
    job = replace(OBSERVE, password=PasswordKey(secret="watch", key="passwd"))
    with pytest.raises(MissingPrerequisite, match="no key 'passwd'") as raised:
        submit_command(cluster, job)
    assert raised.value.evidence == "its keys: password, user"
    assert made_by_job(cluster) == []


def test_an_unknown_service_is_named_with_those_that_there_are(cluster: FakeCluster) -> None:
    cluster.absent = (cluster.object_path("services/bd"),)
    cluster.objects[cluster.object_path("services")] = {"items": [{"metadata": {"name": "db"}}]}
    with pytest.raises(MissingPrerequisite, match="has no service 'bd'") as raised:
        submit_command(cluster, replace(OBSERVE, hosts=("bd",)))
    assert "services there: db" in raised.value.evidence
    assert made_by_job(cluster) == []


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.1", "::1"])
def test_a_pod_has_no_server_of_its_own(cluster: FakeCluster, host: str) -> None:
    with pytest.raises(UsageError, match="is the pod itself"):
        submit_command(cluster, replace(OBSERVE, hosts=(host,)))
    assert made_by_job(cluster) == []


def test_what_this_user_may_not_read_is_left_to_the_cluster(cluster: FakeCluster) -> None:
    cluster.forbidden = tuple(cluster.object_path(path) for path in ("secrets", "services", "serviceaccounts"))
    submit_command(cluster, OBSERVE)
    assert cluster.jobs("volbench-observe-1") in cluster.objects


def test_a_namespace_that_is_missing_is_named(cluster: FakeCluster) -> None:
    cluster.absent = (f"{NAMESPACES}/{cluster.namespace}",)
    with pytest.raises(MissingPrerequisite, match="the namespace does not exist"):
        submit_command(cluster, OBSERVE)


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("db", ("shop", "db")),
        ("db.prod.svc", ("prod", "db")),
        ("db.prod.svc.cluster.local.", ("prod", "db")),
        ("mysql-0.db.prod.svc", ("prod", "db")),
        ("db.example.com", None),
        ("svc", ("shop", "svc")),
        ("10.1.2.3", None),
        ("fd00::1", None),
    ],
)
def test_which_service_a_host_is(host: str, service: tuple[str, str] | None) -> None:
    assert service_of(host, namespace="shop") == service


@pytest.mark.parametrize("text", ["tls", "secret:", "hostpath:etc", "secret:a/b"])
def test_a_mount_is_an_object_of_the_namespace(text: str) -> None:
    with pytest.raises(UsageError, match="a mount is secret:NAME"):
        parse_mounts([text])


def test_two_mounts_of_one_name_and_half_a_secret_are_refused() -> None:
    with pytest.raises(UsageError, match="two mounts have the name a"):
        parse_mounts(["secret:a", "configmap:a"])
    with pytest.raises(UsageError, match="NAME/KEY"):
        parse_password_key("watch")
