"""What a run in a cluster costs: its node and the volumes that it makes, by dated list prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from volbench.core.base.text import duration
from volbench.core.plan.cost import PlanCost, replacements_max
from volbench.core.profile.resolve import resolve_spec
from volbench.core.records.base import parse_size_bytes
from volbench.core.records.own_files import snapshot_steps
from volbench.core.records.run import RunRecord, VolumeSpec
from volbench.errors import Refused
from volbench.machine.placement.kubernetes.options import labels_of, read_options
from volbench.results.credits.prices import HOURS_IN_MONTH, Prices, monthly_cost

DEFAULT_SIZE = "20Gi"
INSTANCE_LABEL = "node.kubernetes.io/instance-type"
OVERLAY_PROFILES = {
    "volbench-ebs-gp2": "ebs-gp2",
    "volbench-ebs-gp3": "ebs-gp3",
    "volbench-ebs-io2": "ebs-io2?iops=10000",
    "volbench-efs": "efs-bursting",
}
"""Storage class of k8s/overlays -> what it makes."""


@dataclass(frozen=True, kw_only=True)
class RunPrice:
    """The price of a run with all its replacements.

    Args:
        total: of what has a price, in `currency`.
        items: `1 node m5.large 0.10`, one for each thing that costs.
        unpriced: what costs and has no price here, with what would give it one.
        assumed: some price was not read at the vendor.
    """

    total: float
    currency: str
    items: tuple[str, ...]
    unpriced: tuple[str, ...]
    assumed: bool
    hours: float
    dated: str
    region: str


def price_run(run: RunRecord, cost: PlanCost, prices: Prices) -> RunPrice:
    """Return the price of nodes and volumes for the run's time; volumes that `pvc:` names exist anyway."""
    hours = cost.wall_s * (1 + replacements_max(run) / max(1, len(run.cells))) / 3600.0 / cells_at_once(run)
    total, assumed = 0.0, False
    items: list[str] = []
    unpriced: list[str] = []
    for subject, rate, is_assumed in (*_nodes(run, prices), *_volumes(run, cost, prices)):
        if rate is None:
            unpriced.append(subject)
            continue
        total += rate * hours
        assumed = assumed or is_assumed
        items.append(f"{subject} {rate * hours:.2f}")
    return RunPrice(
        total=total,
        currency=prices.currency,
        items=tuple(items),
        unpriced=tuple(unpriced),
        assumed=assumed,
        hours=hours,
        dated=prices.dated,
        region=prices.region,
    )


def price_line(price: RunPrice) -> str:
    """Return a sentence for the plan."""
    assumed = ", some of them not read at the vendor" if price.assumed else ""
    items = ", ".join(price.items) or "nothing has a price"
    text = (
        f"cost: about {price.total:.2f} {price.currency} for {duration(round(price.hours * 3600))} ({items});"
        f" list prices of {price.region}, {price.dated}{assumed}"
    )
    return f"{text}; not in it: {'; '.join(price.unpriced)}" if price.unpriced else text


def check_cost(price: RunPrice, cost_max: float) -> None:
    """Raise Refused where the run may cost more than `cost_max`, or something that it uses has no price."""
    if price.unpriced:
        raise Refused(
            "the run's cost is not known",
            where="--cost-max",
            evidence="; ".join(price.unpriced),
            next_step="name what is missing, or leave --cost-max out",
        )
    if price.total > cost_max:
        raise Refused(
            f"the run costs about {price.total:.2f} {price.currency}, more than {cost_max:g}",
            where="--cost-max",
            evidence=price_line(price),
            next_step="use fewer cells or smaller volumes, or raise --cost-max",
        )


_Rate = tuple[str, float | None, bool]
"""What costs, its price an hour (None: unknown), and whether that is assumed."""


def _nodes(run: RunRecord, prices: Prices) -> Iterator[_Rate]:
    """Yield a node for each kind of node that volumes are placed on; with parallel cells as many as run at once."""
    options = [read_options(run.target_options, spec.variant_of or spec.name) for spec in run.volumes]
    for selector, node_price in dict.fromkeys((chosen.selector, chosen.node_price) for chosen in options):
        alike = [chosen for chosen in options if (chosen.selector, chosen.node_price) == (selector, node_price)]
        count = nodes_at_once(run) if alike[0].nodes > 1 else min(alike[0].parallel, len(alike))
        instance = labels_of(selector).get(INSTANCE_LABEL, "")
        listed = prices.instances.get(instance)
        nodes = f"{count} {'nodes' if count > 1 else 'node'} {instance}".rstrip()
        if node_price is not None:
            yield nodes, node_price * count, False
        elif listed is not None:
            yield nodes, listed.hour * count, listed.assumed
        else:
            subject = f"no price of instance type {instance}" if instance else "the nodes' price is not known"
            yield f"{subject} (--target-option node_price=, an hour of a node)", None, False


def cells_at_once(run: RunRecord) -> int:
    """Return how many cells of a run measure at once: on nodes of their own, or one of each volume."""
    options = read_options(run.target_options)
    return (
        options.parallel if options.nodes > 1 else min(options.parallel, len({cell.volume for cell in run.cells}))
    )


def nodes_at_once(run: RunRecord) -> int:
    """Return how many of a run's several nodes measure at once, each with volumes of its own; 1 for other runs."""
    options = read_options(run.target_options)
    return options.parallel if options.nodes > 1 else 1


def _volumes(run: RunRecord, cost: PlanCost, prices: Prices) -> Iterator[_Rate]:
    """Yield the volumes that exist at a time: nodes that measure at once have volumes of their own."""
    for spec in run.volumes:
        if spec.kind == "storage-class" and not spec.variant_of:
            subject, rate, assumed = _volume(run, spec, cost, prices)
            count = nodes_at_once(run)
            yield f"{count} of {subject}" if count > 1 else subject, rate and rate * count, assumed
    if snapshot_steps(run.suite.steps):
        yield "snapshots and the volumes that they are restored to", None, False


def _volume(run: RunRecord, spec: VolumeSpec, cost: PlanCost, prices: Prices) -> _Rate:
    """Return the price of a volume that the run makes, without traffic."""
    text = read_options(run.target_options, spec.name).profile or OVERLAY_PROFILES.get(spec.location, "")
    name = text.partition("?")[0]
    if name not in prices.volumes:
        subject = f"volume {spec.name}: no price of class {spec.location}"
        return f"{subject} (--target-option {spec.name}.profile=ebs-gp3 says what it is)", None, False
    if any(charge.parameter == "size" for charge in prices.volumes[name]):
        size = parse_size_bytes(spec.options.get("size", DEFAULT_SIZE).replace("i", "iB").replace("iBB", "iB"))
        text += f"{'&' if '?' in text else '?'}size={size}"
    parameters = {"stored": float(cost.volume_bytes), **resolve_spec(text, name=spec.name).parameters}
    month = monthly_cost(prices, name, parameters, read_bytes_per_s=0.0, write_bytes_per_s=0.0)
    if month is None:
        raise AssertionError(f"{name} is in the prices")
    return f"volume {spec.name} ({name})", month.month / HOURS_IN_MONTH, month.assumed
