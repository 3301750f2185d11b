"""Configuration of a node's programs."""

from __future__ import annotations

from layout import POD_CIDR, NodePlaces


def containerd_config(node: NodePlaces, *, pause: str) -> str:
    """containerd with CRI, its root and state below the node's directory."""
    return f"""version = 2
root = "{node.directory}/containerd"
state = "{node.directory}/containerd-run"
[grpc]
  address = "{node.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{node.directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # where this process may not lower an oom_score_adj, no pod could be started
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{node.directory}/cni.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def kubelet_config(node: NodePlaces) -> dict[str, object]:
    """A kubelet that never removes an image: none could be pulled again."""
    pki = node.layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "tlsCertFile": str(pki(f"serving-{node.name}.crt")),
        "tlsPrivateKeyFile": str(pki(f"serving-{node.name}.key")),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki("ca.crt"))},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.namespace}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "podLogsDir": f"{node.directory}/pod-logs",
        "resolvConf": "",
        "clusterDomain": "cluster.local",
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "87600h",
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "nodeStatusUpdateFrequency": "4s",
        "makeIPTablesUtilChains": False,
        "maxPods": 60,
    }


def proxy_config(node: NodePlaces) -> dict[str, object]:
    """kube-proxy inside the node's own network namespace."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(node.layout.state / "proxy.kubeconfig")},
        "clusterCIDR": POD_CIDR,
        "bindAddress": node.address,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "nodePortAddresses": [f"{node.address}/32"],
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def network_config(pod_cidr: str) -> dict[str, object]:
    """Pods on a bridge of their node."""
    ranges = [[{"subnet": pod_cidr}]]
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return {"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge]}
