"""Whether the threads of a suite reach what a volume allows, against calculations by hand."""

from __future__ import annotations

from pathlib import Path

from volbench.core.profile.limits import read_latency_s
from volbench.core.profile.resolve import resolve
from volbench.measure.session.caveats import caveats_of
from volbench.measure.session.load_depth import load_caveats
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest

SUITE = Path(__file__).parents[4] / "suites" / "quick.yaml"
FAST = {"iops": "64000", "size": "2TiB"}


def caveats(*volumes: str, settings: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> list[str]:
    target = "kubernetes" if options else "local"
    request = TargetRequest(target=target, options=options)
    return list(load_caveats(make_plan(SUITE, volumes, request, settings=settings).run))


def test_few_threads_on_a_fast_volume_are_said_with_those_that_reach_it() -> None:
    latency_s = read_latency_s(resolve("ebs-io2", FAST), 16384)
    needed = next(n for n in range(1, 1000) if n / latency_s >= 64_000)
    [text] = caveats("io2=emulated:ebs-io2?iops=64000&size=2TiB")
    assert text.startswith("The load of step read-write, not the volume, limits reads on io2: at ")
    assert "ms a read, 8 threads can make at most " in text
    assert text.endswith(f"of 64,000 reads/s. {needed} threads would reach them.")
    assert needed > 8


def test_threads_that_reach_the_volume_are_not_mentioned() -> None:
    assert caveats("gp3=emulated:ebs-gp3") == []
    needed = f'steps=[{{"kind": "oltp", "name": "rw", "threads": [1, 64]}}]'  # noqa: F541
    assert caveats("io2=emulated:ebs-io2?iops=64000&size=2TiB", settings=(needed,)) == []


def test_the_bytes_of_a_page_count_where_throughput_is_the_tighter_limit() -> None:
    """125 MiB/s are 8,000 pages of 16 KiB, whatever the IOPS."""
    [text] = caveats(
        "gp3=emulated:ebs-gp3?iops=16000&throughput=125&size=1TiB",
        settings=('steps=[{"kind": "oltp", "name": "rw", "threads": [1]}]',),
    )
    assert "of 8,000 reads/s" in text


def test_a_given_rate_and_a_volume_without_known_limits_say_nothing(tmp_path: Path) -> None:
    rate = ('steps=[{"kind": "oltp", "name": "rw", "threads": [8], "rate": 100}]',)
    assert caveats("io2=emulated:ebs-io2?iops=64000&size=2TiB", settings=rate) == []
    assert caveats(f"a=path:{tmp_path}") == []


def test_the_profile_of_a_claim_is_known_by_its_option() -> None:
    [text] = caveats("b=storage-class:fast?size=2Ti", options=("b.profile=ebs-io2?iops=64000&size=2TiB",))
    assert "limits reads on b" in text


def test_a_plan_shows_it() -> None:
    planned = make_plan(SUITE, ["io2=emulated:ebs-io2?iops=64000&size=2TiB"], TargetRequest(target="local"))
    assert any("threads would reach them" in text for text in caveats_of(planned.run, planned.cost.volume_bytes))
