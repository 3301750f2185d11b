"""`volbench k8s render`: objects fit for three versions of Kubernetes, and the strictest pods."""

from __future__ import annotations

import jsonschema
import kubernetes_schemas
import pytest
from manifests import rendered

from volbench.errors import UsageError
from volbench.machine.volume.node_helper import DIRECTORY, SOCKET, VARIABLE


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_rendered_manifests_fit_the_api(version: str) -> None:
    """With every option given, so that each of their fields is checked."""
    result = rendered(
        "namespace=n",
        "selector=disk=nvme,zone=a",
        "tolerations=only=volbench:NoSchedule,spot:NoExecute",
        "server_cpu=2",
        "server_memory=4Gi",
        "agent_cpu=1",
        "agent_memory=1Gi",
        "pull_secret=s",
        "priority_class=p",
        "queue=team-a",
        "ephemeral_storage=10Gi",
        "runtime_class=kata",
        "labels=team=dba",
        "annotations=owner=anna",
        "parallel=2",
        "ebs_csi=http://ebs-csi-node.kube-system:3302/metrics",
    )
    assert [manifest["kind"] for manifest in result] == ["Job", "PersistentVolumeClaim", *["ConfigMap", "Job"] * 4]
    for manifest in result:
        kubernetes_schemas.check(manifest, version)


def test_a_fault_would_be_found() -> None:
    job = rendered()[3]
    job["spec"]["template"]["spec"]["initContainer"] = []
    with pytest.raises(jsonschema.ValidationError, match="initContainer"):
        kubernetes_schemas.check(job, kubernetes_schemas.VERSIONS[0])


def test_pods_have_no_rights_and_the_sizes_that_were_asked_for() -> None:
    """Restricted Pod Security; requests are limits; a server beside its agent, never started twice."""
    job = rendered("server_cpu=2", "server_memory=4Gi")[3]
    assert job["spec"]["backoffLimit"] == 0
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    (server,) = pod["initContainers"]
    assert server["restartPolicy"] == "Always"
    assert server["resources"]["limits"] == server["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert not any("hostPath" in volume for volume in pod["volumes"])


def test_what_a_pod_may_write_to_the_nodes_disk_has_limits() -> None:
    """Of directories always; of containers on request alone, since a queue or quota may know no such resource."""
    pod = rendered()[3]["spec"]["template"]["spec"]
    limits = {
        volume["name"]: volume["emptyDir"].get("sizeLimit") for volume in pod["volumes"] if "emptyDir" in volume
    }
    assert limits.pop("scratch") is None  # a dump of a whole dataset goes there (`to: scratch`)
    assert all(limits.values())
    containers = [*pod["initContainers"], *pod["containers"]]
    assert "ephemeral-storage" not in str([container["resources"] for container in containers])
    pod = rendered("ephemeral_storage=10Gi")[3]["spec"]["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        amounts = {kind: container["resources"][kind]["ephemeral-storage"] for kind in ("requests", "limits")}
        assert amounts == {"requests": "10Gi", "limits": "10Gi"}


def test_pods_request_what_the_suite_needs_and_are_not_for_autoscalers_to_end() -> None:
    """Without requests a pod is the first to be evicted; without limits it may use the node."""
    job = rendered("labels=team=dba,volbench.org/run=x", "annotations=owner=anna")[3]
    template = job["spec"]["template"]
    assert template["metadata"]["annotations"] == {"owner": "anna"}, "the holder keeps autoscalers off the node"
    alone = rendered("node=n1")[3]["spec"]["template"]["metadata"]["annotations"]
    assert alone == {
        "karpenter.sh/do-not-disrupt": "true",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }
    assert template["metadata"]["labels"]["team"] == job["metadata"]["labels"]["team"] == "dba"
    assert template["metadata"]["labels"]["volbench.org/run"] != "x"
    (server,) = template["spec"]["initContainers"]
    assert "limits" not in server["resources"]
    assert server["resources"]["requests"]["memory"] == "584Mi", "a pool of 32M, and room for the clients"
    agent = template["spec"]["containers"][0]
    assert agent["resources"] == {"requests": {"cpu": "100m", "memory": "256Mi"}}
    (half,) = rendered("server_cpu=2")[3]["spec"]["template"]["spec"]["initContainers"]
    assert half["resources"] == {"requests": {"cpu": "2", "memory": "584Mi"}, "limits": {"cpu": "2"}}


def test_a_queued_job_is_suspended_with_the_label_of_its_queue() -> None:
    """As Kueue's documentation asks of plain Jobs; without the option there is neither."""
    job = rendered("queue=team-a")[3]
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    plain = rendered()[3]
    assert "suspend" not in plain["spec"]
    assert "kueue.x-k8s.io/queue-name" not in plain["metadata"]["labels"]


def test_parallel_cells_are_kept_apart_unless_they_may_share_a_node() -> None:
    """Cells of other runs are kept off the node in any case."""

    def apart(*options: str) -> bool:
        affinity = rendered(*options)[3]["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        other_runs, *own = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert other_runs["labelSelector"]["matchExpressions"][1]["operator"] == "NotIn"
        return [item["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] for item in own] == ["cell"]

    assert apart("parallel=3")
    assert not apart("parallel=3", "share_nodes=true")
    assert not apart()


def test_names_are_looked_up_only_to_find_the_ebs_driver() -> None:
    """Which the agent asks, and no other container."""
    url = "http://ebs-csi-node.kube-system:3302/metrics"
    assert rendered()[3]["spec"]["template"]["spec"]["dnsPolicy"] == "Default"
    pod = rendered(f"ebs_csi={url}")[3]["spec"]["template"]["spec"]
    assert pod["dnsPolicy"] == "ClusterFirst"
    names = [
        item["name"]
        for item in (*pod["initContainers"], *pod["containers"])
        for env in item["env"]
        if env.get("value") == url
    ]
    assert names == ["agent"]
    with pytest.raises(UsageError, match="ebs_csi"):
        rendered("ebs_csi=file:///etc/passwd")


def test_an_unknown_option_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="perhaps you meant 'namespace'"):
        rendered("namspace=x")
    with pytest.raises(UsageError, match="server_cpu"):
        rendered("server_cpu=many")


def test_an_agent_sees_its_helpers_directory_and_cannot_write_there() -> None:
    pod = rendered()[3]["spec"]["template"]["spec"]
    assert {"name": DIRECTORY, "emptyDir": {"sizeLimit": "16Mi"}} in pod["volumes"]
    mounts = {
        item["name"]: mount
        for item in (*pod["initContainers"], *pod["containers"])
        for mount in item["volumeMounts"]
        if mount["name"] == DIRECTORY
    }
    assert mounts == {"agent": {"name": DIRECTORY, "mountPath": "/volbench/node", "readOnly": True}}
    (agent,) = [container for container in pod["containers"] if container["name"] == "agent"]
    assert {"name": VARIABLE, "value": f"/volbench/node/{SOCKET}"} in agent["env"]


def test_labels_and_annotations_are_on_all_objects_and_their_pods() -> None:
    """Policies judge claims and the owner too."""
    made = rendered("labels=team=dba,volbench.org/run=x", "annotations=owner=anna")
    assert {manifest["kind"] for manifest in made} == {"Job", "PersistentVolumeClaim", "ConfigMap"}
    for manifest in made:
        locations = [manifest["metadata"]]
        if manifest["kind"] == "Job":
            locations.append(manifest["spec"]["template"]["metadata"])
        for metadata in locations:
            assert metadata["labels"]["team"] == "dba"
            assert metadata["labels"]["volbench.org/run"] != "x", "volbench finds its objects by its own"
            assert metadata["annotations"]["owner"] == "anna"
