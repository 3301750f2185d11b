"""The instances step without servers: what its model and its check refuse, its cost, its loads."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from step_context import context_on

from volbench.core.records.layout import ComponentPlaces
from volbench.core.records.metrics import metric
from volbench.core.records.steps.instances import InstancesStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.measure.workload.instances import loads
from volbench.measure.workload.instances.loads import details_of, load_of, run_loads
from volbench.measure.workload.instances.servers import require_memory
from volbench.measure.workload.instances.step import Instances
from volbench.measure.workload.interface import StepContext, StepOutcome

GIB = 2**30


def step(**changes: Any) -> InstancesStep:
    return InstancesStep.model_validate({"name": "several", **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [2, 2]}, "ascend"),
        ({"counts": [3, 2]}, "ascend"),
        ({"counts": [1, 2]}, "one server alone is always measured"),
        ({"counts": [17]}, "2 to 16"),
        ({"counts": []}, "at least 1"),
        ({"keeps": 0}, "greater than 0"),
        ({"keeps": 1.5}, "keeps"),
        ({"p95": 0}, "greater than 0"),
    ],
)
def test_counts_and_objectives_that_mean_nothing_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        step(**changes)


def test_the_plan_has_room_for_every_copy_and_time_for_every_load() -> None:
    cost = step(counts=[2, 4], duration=10, warmup=5).cost(GIB)
    assert cost.kept_bytes == 3 * GIB
    assert cost.measured_s == 3 * 10
    assert step(counts=[2, 4], duration=10, warmup=5, neighbour_threads=8).cost(GIB).measured_s == 4 * 10


def test_neighbours_have_threads_of_their_own_and_no_rate() -> None:
    noisy = step(threads=2, rate=50, neighbour_threads=16)
    assert (load_of(noisy, 1).threads, load_of(noisy, 1).rate) == ((2,), 50)
    assert (load_of(noisy, 2).threads, load_of(noisy, 2).rate) == ((16,), None)
    alike = step(threads=2, rate=50)
    assert load_of(alike, 3) == load_of(alike, 1)


class Asked:
    """A server with this buffer pool."""

    def query(self, _: str) -> list[tuple[int]]:
        return [(GIB,)]


@pytest.mark.parametrize(("available_kib", "fits"), [(4 << 20, True), (3 << 20, False)])
def test_servers_that_would_make_the_machine_swap_are_refused(
    tmp_path: Path, available_kib: int, fits: bool
) -> None:
    """Three with 1 GiB of buffer pool each and 256 MiB more take 3.75 GiB."""
    info = tmp_path / "meminfo"
    info.write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available_kib} kB\n")
    server: Any = Asked()
    if fits:
        require_memory(server, 3, where="step several", info=info)
        return
    with pytest.raises(MissingPrerequisite, match="3 further servers would need more memory"):
        require_memory(server, 3, where="step several", info=info)


class Own:
    """A server that volbench started, in some place."""

    def __init__(self, supervisor: str) -> None:
        self.paths = CellPlacesOf(supervisor)

    def own(self, _: str, *, where: str) -> Own:  # noqa: ARG002
        return self


@dataclasses.dataclass
class CellPlacesOf:
    """The part of a cell's places that is asked for."""

    supervisor: str


def test_a_container_that_others_started_is_refused(tmp_path: Path) -> None:
    context, _ = context_on(tmp_path, server=Own("shared"))
    with pytest.raises(MissingPrerequisite, match="allows none"):
        Instances().check(step(), context)


def test_a_layout_is_refused(tmp_path: Path) -> None:
    context, _ = context_on(tmp_path, server=Own("launch"))
    layout = (ComponentPlaces(name="log", roles=("redo",), volume_dir=str(tmp_path)),)
    with pytest.raises(UsageError, match="one volume for all files") as refused:
        Instances().check(step(), dataclasses.replace(context, layout=layout))
    assert "log" in refused.value.evidence


class Load:
    """Loads of which the second fails at once, and the others run until they are ended."""

    def run(self, _: object, ctx: StepContext) -> StepOutcome:
        if ctx.seed == 8:
            raise StepFailed("sysbench ended with exit code 1", where="step several")
        assert ctx.cancelled.wait(60), "nobody ended this load"
        raise StepFailed("cancelled", where="step several")


def test_the_failure_of_one_load_ends_all_and_names_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "Oltp", Load)
    context, _ = context_on(tmp_path)  # its seed is 7
    servers: Any = [(1, object()), (2, object()), (3, object())]
    with pytest.raises(StepFailed, match="exit code 1") as failed:
        run_loads(step(), context, servers, row="several/3")
    assert failed.value.where == "step several: server 2"


def test_a_cancelled_step_ends_its_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "Oltp", Load)
    context, _ = context_on(tmp_path)
    cancelled = threading.Event()
    cancelled.set()
    servers: Any = [(1, object())]
    with pytest.raises(StepFailed, match="cancelled"):
        run_loads(step(), dataclasses.replace(context, cancelled=cancelled), servers, row="several/alone")


def outcome(**details: Any) -> StepOutcome:
    return StepOutcome(window_s=(0.0, 10.0), metrics={"tps": metric("tps", 5.0)}, details=details)


def test_the_clients_of_all_servers_are_judged_together() -> None:
    """Two clients of four threads each on two CPUs: 6 s and 9 s of 20 CPU seconds."""
    of_two = [
        (1, outcome(client_cpu_s=6.0, client_cpus_usable=2.0, offered_ratio=1.0, offered_due=100)),
        (2, outcome(client_cpu_s=9.0, client_cpus_usable=2.0, offered_ratio=0.5, offered_due=90)),
    ]
    details = details_of(of_two, cpus=2.0)
    assert details["client_cpu_ratio"] == pytest.approx(0.75)
    assert (details["offered_ratio"], details["offered_due"]) == (0.5, 90)
    assert [server["tps"] for server in details["servers"]] == [5.0, 5.0]


def test_a_client_whose_cpu_time_is_not_known_leaves_that_of_all_unknown() -> None:
    details = details_of([(1, outcome(client_cpu_s=6.0, client_cpus_usable=2.0)), (2, outcome())], cpus=2.0)
    assert "client_cpu_ratio" not in details
    assert "offered_ratio" not in details
