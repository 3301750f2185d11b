"""Injections of the virtual machine: each suite loads, proofs tell a cause that acted from one that did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vm.injection_scores import first_readings, prove
from vm.injections import PIECE, campaign, conditions, done, pieces
from volbench.core.suite.load import load_suite

INJECTIONS = conditions()["injections"]
DISK = "nvme2n1"


def samples(grown: dict[str, float], *, seconds: int = 20) -> list[dict[str, float]]:
    """Counters of each second that grow evenly."""
    return [{"t_s": float(at), **{name: at * by for name, by in grown.items()}} for at in range(seconds)]


@pytest.mark.parametrize(
    ("stack", "names"), pieces(INJECTIONS), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_suite_of_every_stack_loads(stack: str, names: list[str], tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(json.dumps(campaign(stack, names)["suite"]))
    suite, _ = load_suite(file)
    assert [step.name for step in suite.steps] == names
    assert len(names) <= PIECE


def test_a_contrast_after_the_last_step_is_of_one_injection() -> None:
    """Else the limit of one step would be contrasted in the name of all."""
    contrasted = [
        names for _, names in pieces(INJECTIONS) if any(INJECTIONS[name].get("contrast") for name in names)
    ]
    assert ["qemu-iops-reads"] in contrasted
    assert {len(names) for names in contrasted} == {1}
    made = campaign("raw", ["qemu-iops-reads"])
    assert (made["suite"]["sampling"]["size_contrast"], made["injections"][0]["contrast"]) == (5, True)
    others = campaign("raw", ["calm", "qemu-iops-fio"])
    assert others["suite"]["sampling"]["size_contrast"] == 0
    assert [injection["contrast"] for injection in others["injections"]] == [False, True]


@pytest.mark.parametrize("name", INJECTIONS)
def test_every_proof_refuses_a_machine_in_which_nothing_acted(name: str) -> None:
    """But those that say so on the page: netem and flush delays have no counter beside volbench's."""
    proof = INJECTIONS[name]["proof"]
    still = {
        f"disk.{proof.get('disk')}.{item}": 0.0
        for item in ("reads", "writes", "read_ms", "write_ms", "read_sectors", "write_sectors")
    }
    counters = (
        "cpu.throttled_usec",
        "cpu.usage_usec",
        "client.throttled_usec",
        "memory.waited_us",
        "injection.usage_usec",
        "net.lo.bytes",
    )
    idle = samples({**still, **dict.fromkeys(counters, 0.0)})
    _, missing = prove(proof, idle)
    assert bool(missing) is (proof["of"] not in ("set", "quiet", "still"))


def test_a_limit_is_proven_at_its_rate_and_not_far_below() -> None:
    proof = {"of": "limit", "disk": DISK, "iops": 60}
    at = samples({f"disk.{DISK}.reads": 10.0, f"disk.{DISK}.writes": 49.0})
    assert prove(proof, at) == ({"iops of 60": 59.0}, [])
    below = samples({f"disk.{DISK}.reads": 0.0, f"disk.{DISK}.writes": 20.0})
    assert prove(proof, below)[1] == ["33% of the limit"]


def test_a_limit_in_bytes_of_one_direction_counts_that_direction() -> None:
    observed = samples({f"disk.{DISK}.read_sectors": 4096.0, f"disk.{DISK}.write_sectors": 2048.0})
    assert prove({"of": "limit", "disk": DISK, "write_bytes": 1_048_576}, observed)[1] == []
    assert prove({"of": "limit", "disk": DISK, "read_bytes": 1_048_576}, observed)[1] == ["200% of the limit"]


def test_a_bucket_is_judged_by_the_time_after_it_is_empty() -> None:
    proof = {"of": "limit", "disk": DISK, "iops": 30, "from": 0.5}
    counts, writes = [], 0.0
    for at in range(20):
        counts.append({"t_s": float(at), f"disk.{DISK}.reads": 0.0, f"disk.{DISK}.writes": writes})
        writes += 200.0 if at < 8 else 30.0
    assert prove(proof, counts) == ({"iops of 30": 30.0}, [])


def test_foreign_reads_are_those_beyond_the_services_own() -> None:
    proof = {"of": "foreign", "disk": DISK, "iops": 60}
    observed = samples({f"disk.{DISK}.reads": 100.0, "group.259:2.rios": 20.0})
    assert prove(proof, observed) == ({"foreign reads/s": 80.0}, [])
    assert prove(proof, samples({f"disk.{DISK}.reads": 100.0, "group.259:2.rios": 95.0}))[1] == [
        "5 foreign reads/s"
    ]


def test_foreign_writes_are_those_beyond_the_services_own() -> None:
    proof = {"of": "foreign", "disk": DISK, "kind": "write", "iops": 60}
    observed = samples({f"disk.{DISK}.writes": 140.0, f"disk.{DISK}.reads": 0.0, "group.259:2.wios": 50.0})
    assert prove(proof, observed) == ({"foreign writes/s": 90.0}, [])
    alone = samples({f"disk.{DISK}.writes": 140.0, f"disk.{DISK}.reads": 0.0, "group.259:2.wios": 100.0})
    assert prove(proof, alone)[1] == ["40 foreign writes/s"]


def test_foreign_bytes_are_those_beyond_the_services_own() -> None:
    proof = {"of": "foreign", "disk": DISK, "kind": "write", "bytes": 1_000_000}
    observed = samples({f"disk.{DISK}.write_sectors": 4000.0, "group.259:2.wbytes": 48_000.0})
    assert prove(proof, observed) == ({"foreign write bytes/s": 2_000_000.0}, [])
    alone = samples({f"disk.{DISK}.write_sectors": 4000.0, "group.259:2.wbytes": 1_548_000.0})
    assert prove(proof, alone)[1] == ["500000 foreign write bytes/s"]


def test_a_disk_that_is_slow_at_times_is_proven_by_its_seconds() -> None:
    proof = {"of": "slow", "disk": DISK, "write_ms": 60, "seconds": 4}
    counts, writes, write_ms = [], 0.0, 0.0
    for at in range(20):
        counts.append({"t_s": float(at), f"disk.{DISK}.writes": writes, f"disk.{DISK}.write_ms": write_ms})
        writes, write_ms = (writes + 20, write_ms + 1800) if at % 7 > 4 else (writes + 500, write_ms + 400)
    assert prove(proof, counts) == ({"slow s": 4.0}, [])
    assert prove({**proof, "seconds": 5}, counts)[1] == ["slow for 4 s"]


def test_a_rate_is_proven_between_its_bounds() -> None:
    proof = INJECTIONS["nfs-rate-reads"]["proof"]
    assert prove(proof, samples({"net.lo.bytes": 500_000.0}))[1] == []
    assert prove(proof, samples({"net.lo.bytes": 5_000_000.0}))[1] == ["net.lo.bytes grew by 9.5e+07"]


def test_a_memory_limit_is_proven_by_the_time_in_which_tasks_waited() -> None:
    """Runs from before that time was counted prove nothing: 21 events took 2 % of a step."""
    proof = INJECTIONS["memory-high"]["proof"]
    assert prove(proof, samples({"memory.waited_us": 200_000.0}))[1] == []
    assert prove(proof, samples({"memory.waited_us": 20_000.0}))[1] == ["memory.waited_us grew by 380000"]
    assert prove(proof, samples({"memory.high": 31.0})) == ({}, ["memory.waited_us was not counted"])


def test_what_has_acted_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "raw-1").mkdir()
    (tmp_path / "raw-1/injections.json").write_text('[{"name": "calm", "errors": []}]')
    assert done(tmp_path) == {"calm"}


def test_every_injection_acts() -> None:
    """`on` and `off` are truth values in YAML: scripts of these names were never run."""
    known = {"stack", "family", "load", "throttle", "begin", "end", "truth", "accepted", "proof", "contrast"}
    assert {key for condition in INJECTIONS.values() for key in condition} <= known
    idle = {name for name, condition in INJECTIONS.items() if not {"throttle", "begin"} & condition.keys()}
    assert idle == {name for name, condition in INJECTIONS.items() if condition["family"] == "calm"}


def test_first_readings_are_counted_by_generation() -> None:
    said = [
        ("calm", ""),
        ("frozen", "wrong: server.stall 0.85"),
        ("calm-reads", "right: none 0.92"),
        ("cost-model-commits", "wrong and sure: server.stall 0.95"),
        ("nbd-paused-reads", "right: storage.stall 0.92"),
        ("client-paused", "accused: storage.sync_latency 0.75 (one of two)"),
    ]
    *generations, every = first_readings(said)
    assert [row.split("|")[1].strip() for row in generations] == ["first", "second", "third", "fourth", "fifth"]
    assert [row.partition("|")[2].split("|", 2)[2] for row in generations] == [
        " 1 | 0 | 0 | 1 | 0 | 0 |",
        " 1 | 1 | 0 | 0 | 0 | 0 |",
        " 3 | 1 | 0 | 0 | 1 | 1 |",
        " 0 | 0 | 0 | 0 | 0 | 0 |",
        " 0 | 0 | 0 | 0 | 0 | 0 |",
    ]
    assert every == "| **all** |  | 5 | 2 | 0 | 1 | 1 | 1 |"
