"""Options of the kubernetes target: `--target-option KEY=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from pydantic import Field, ValidationError

from volbench.core.base.nearest import suggestion
from volbench.core.records.base import Record, Scalar, Seconds
from volbench.errors import UsageError
from volbench.machine.cluster.marks import Marks

_QUANTITY = r"^(\d+(\.\d+)?(m|Ki|Mi|Gi|Ti|k|M|G|T)?)?$"


class KubernetesOptions(Record):
    """Where and how cells run in a cluster. Resources are both requests and limits."""

    context: str = Field(default="", description="Of the kubeconfig; empty: the current one.")
    namespace: str = Field(default="", description="Of the cells; empty: the context's.")
    node: str = Field(default="", description="Name of the node that all cells run on.")
    selector: str = Field(default="", description="Labels of nodes that cells may run on: key=value,key=value.")
    tolerations: str = Field(default="", description="Taints that cells tolerate: key=value:Effect, ...")
    server_cpu: str = Field(default="", pattern=_QUANTITY, description="CPUs of the server's container.")
    server_memory: str = Field(default="", pattern=_QUANTITY, description="Memory of the server's container.")
    agent_cpu: str = Field(default="", pattern=_QUANTITY, description="CPUs of the agent's container.")
    agent_memory: str = Field(default="", pattern=_QUANTITY, description="Memory of the agent's container.")
    ephemeral_storage: str = Field(
        default="", pattern=_QUANTITY, description="Of the node's disk, for each container; empty: no request."
    )
    ebs_csi: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="Metrics of the EBS CSI driver on a cell's own node: http://ebs-csi-node.kube-system:3302/metrics.",
    )
    pull_policy: str = Field(default="IfNotPresent", pattern="^(IfNotPresent|Always|Never)$")
    pull_secret: str = Field(default="", description="Secret with the image registry's credentials.")
    priority_class: str = Field(default="", description="Priority class of the pods.")
    profile: str = Field(default="", description="What a volume is, for its price: ebs-gp3?iops=6000.")
    node_price: float | None = Field(default=None, ge=0, description="Price of an hour of a node, for the run's.")
    runtime_class: str = Field(default="", description="Runtime class of the cells' pods.")
    user: int = Field(default=999, ge=1, description="User id of server and agent; 999 is the official images'.")
    start_timeout_s: Seconds = Field(
        default=300.0, alias="start_timeout", gt=0, description="How long a pod may take to be scheduled and ready."
    )
    labels: str = Field(default="", description="Further labels of all objects: key=value,key=value.")
    annotations: str = Field(default="", description="Further annotations of all objects: key=value,key=value.")
    pin_node: bool = Field(
        default=True,
        description="All cells run on the first one's node, where their claims allow that; false: they prefer it.",
    )
    queue_timeout_s: Seconds = Field(
        default=4 * 3600.0,
        alias="queue_timeout",
        gt=0,
        description="How long a cell waits for a node on which another run's cell runs.",
    )
    queue: str = Field(
        default="",
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        description="Local queue of Kueue: cells' jobs are created suspended, and Kueue admits them.",
    )
    s3_secret: str = Field(
        default="",
        description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for dumps `to: s3` and `dataset.url`;"
        " empty: no keys.",
    )
    service_account: str = Field(
        default="",
        description="Service account whose role of AWS cells take for these (Pod Identity, IRSA).",
    )
    s3_region: str = Field(default="", pattern=r"^[a-z0-9-]*$", description="Region of their bucket.")
    s3_endpoint: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="Of an S3 that is none of AWS': http://minio.store.svc:9000.",
    )
    keep: bool = Field(default=False, description="Leave jobs, pods and claims until `ttl` has passed, to look at.")
    ttl_s: Seconds = Field(
        default=24 * 3600.0,
        alias="ttl",
        ge=30,
        description="How long results in pods, volumes and all of a run wait for `resume`.",
    )
    parallel: int = Field(default=1, ge=1, le=100, description="Cells that run at once, never two on one node.")
    nodes: int = Field(
        default=1,
        ge=1,
        le=100,
        description="Nodes to measure on, `parallel` of them at once: each has whole repeats of all volumes.",
    )
    share_nodes: bool = Field(default=False, description="Let parallel cells share a node.")


PER_VOLUME = frozenset(
    {
        "node",
        "node_price",
        "profile",
        "selector",
        "tolerations",
        "runtime_class",
        "labels",
        "annotations",
        "priority_class",
    }
)
"""Options that may be those of one volume's cells: `VOLUME.KEY=VALUE`. They say where cells run."""

OF_JOBS = frozenset(
    {
        *("context", "namespace", "pull_secret", "queue", "labels", "annotations"),
        *("node", "selector", "tolerations", "priority_class"),
        *("s3_secret", "s3_region", "s3_endpoint"),
    }
)
"""Options that the Job of a command has; the others are about cells."""


def parse_job_options(texts: Sequence[str]) -> dict[str, Scalar]:
    """Parse the options of a Job that runs a command. Raise UsageError for one that only cells have."""
    options = parse_options(texts)
    of_cells = sorted(options.keys() - OF_JOBS)
    if of_cells:
        raise UsageError(
            f"a Job that runs a command does not have the option {of_cells[0]!r}",
            where=f"--target-option {of_cells[0]}",
            next_step=f"options of such a Job: {', '.join(sorted(OF_JOBS))}",
        )
    return options


def parse_options(texts: Sequence[str]) -> dict[str, Scalar]:
    """Parse KEY=VALUE and VOLUME.KEY=VALUE texts for run.json. Raise UsageError with the nearest match."""
    names = {field.alias or name: name for name, field in KubernetesOptions.model_fields.items()}
    options: dict[str, Scalar] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        volume, _, key = name.rpartition(".")
        key = key.replace("-", "_")
        if volume and key in names and key not in PER_VOLUME:
            raise UsageError(
                f"the option {key!r} is the same for all volumes",
                where=f"--target-option {name}",
                next_step=f"options of one volume: {', '.join(sorted(PER_VOLUME))}",
            )
        if key not in names:
            raise UsageError(
                f"the kubernetes target has no option {key!r}",
                where="--target-option",
                next_step=suggestion(key, names),
            )
        if not separator:
            raise UsageError(f"the option {key!r} needs a value", where="--target-option", next_step=f"{key}=VALUE")
        options[f"{volume}.{key}" if volume else key] = value
    for volume in ("", *volumes_of(options)):
        _check_nodes(read_options(options, volume), volume)
    return options


def _check_nodes(options: KubernetesOptions, volume: str) -> None:
    """Raise UsageError for options that place cells otherwise than whole repeats on each node."""
    contradictions = {
        "node": bool(options.node),
        f"parallel={options.parallel}": options.parallel > options.nodes,
        "pin_node": not options.pin_node,
        "share_nodes": options.share_nodes,
        "VOLUME.KEY": bool(volume),
    }
    contradiction = next((key for key, is_set in contradictions.items() if is_set), "")
    if options.nodes > 1 and contradiction:
        raise UsageError(
            f"nodes={options.nodes} and {contradiction} contradict each other",
            where="--target-option",
            evidence="each node measures whole repeats of all volumes, one cell at a time",
            next_step="leave one of them out",
        )


def volumes_of(options: Mapping[str, Scalar]) -> list[str]:
    """Return the names of volumes that have options of their own."""
    return list(dict.fromkeys(key.rpartition(".")[0] for key in options if "." in key))


def check_volume_names(options: Mapping[str, Scalar], names: Collection[str]) -> None:
    """Raise UsageError for options of a volume that the run does not have."""
    for volume in volumes_of(options):
        if volume not in names:
            raise UsageError(
                f"the run has no volume {volume!r}", where="--target-option", next_step=suggestion(volume, names)
            )


FIXED_FOR_A_RUN = frozenset(
    {
        "namespace",
        "nodes",
        "server_cpu",
        "server_memory",
        "agent_cpu",
        "agent_memory",
        "user",
        "parallel",
        "share_nodes",
    }
)
"""Where the run's claims are, and what decides its figures: cells with another value must not be pooled."""


def parse_changes(texts: Sequence[str]) -> dict[str, Scalar]:
    """Parse KEY=VALUE texts for a resumed run. Raise UsageError for an option that must stay as it was."""
    options = parse_options(texts)
    for key in options:
        if key.rpartition(".")[2] in FIXED_FOR_A_RUN:
            raise UsageError(
                f"the option {key!r} is the same for all cells of a run",
                where="--target-option",
                next_step="resume without it, or start a new run",
            )
    return options


def read_options(options: Mapping[str, Scalar], volume: str = "") -> KubernetesOptions:
    """Return the options of a run, or of one volume's cells. Raise UsageError for an invalid value."""
    values = {key: value for key, value in options.items() if key != "tools" and "." not in key}
    of_volume = [(key.rpartition("."), value) for key, value in options.items() if "." in key]
    values.update({key: value for (name, _, key), value in of_volume if name == volume})
    try:
        return KubernetesOptions.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(component) for component in first["loc"])
        raise UsageError(
            f"{key}: {first['msg']}", where="--target-option", evidence=f"{first['input']!r}"
        ) from error


def has_holder(options: KubernetesOptions) -> bool:
    """Return whether cells follow a holder of their node: not if each is on a node of its own, or one is named."""
    is_spread = options.parallel > 1 and options.nodes == 1 and not options.share_nodes
    return not (options.node or is_spread)


def marks_of(options: KubernetesOptions) -> Marks:
    """Return the labels and annotations of all objects of a run."""
    return Marks(labels=labels_of(options.labels), annotations=labels_of(options.annotations))


def labels_of(text: str) -> dict[str, str]:
    """Parse `key=value,key=value` as a node selector. Raise UsageError."""
    labels = {}
    for assignment in filter(None, re.split(r"\s*,\s*", text)):
        key, separator, value = assignment.partition("=")
        if not separator:
            raise UsageError(f"{assignment!r} is not key=value", where="--target-option selector")
        labels[key] = value
    return labels


def tolerations_of(text: str) -> list[dict[str, str]]:
    """Parse `key=value:Effect` or `key:Effect`, separated by commas. Raise UsageError."""
    tolerations = []
    for taint_text in filter(None, re.split(r"\s*,\s*", text)):
        taint, separator, effect = taint_text.rpartition(":")
        key, has_value, value = taint.partition("=")
        if not separator or not key:
            raise UsageError(f"{taint_text!r} is not key=value:Effect", where="--target-option tolerations")
        toleration = {"key": key, "effect": effect, "operator": "Equal" if has_value else "Exists"}
        tolerations.append({**toleration, "value": value} if has_value else toleration)
    return tolerations
