"""`volbench volume`: profiles and faults as they are typed and shown; mistakes have one message and a code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.cli.volumes import text as volume_text
from volbench.cli.volumes.faults import FAULTS, parse_fault
from volbench.core.base import ownership
from volbench.core.profile.files import profile_names, whole_profile
from volbench.core.profile.resolve import resolve
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite, Refused, UsageError, VolbenchError
from volbench.machine.placement import capabilities
from volbench.machine.volume.emulated import requirements as emulated_needs
from volbench.machine.volume.probe.figures import expected_figures
from volbench.machine.volume.probe.judgement import RateDrop
from volbench.machine.volume.probe.measurement import Probe
from volbench.machine.volume.probe.nearest import nearest_profiles


def message_of(*arguments: str) -> str:
    """What a command prints on stdout; its expected failure is raised."""
    ended = CliRunner().invoke(app, ["volume", *arguments], catch_exceptions=False, env={"COLUMNS": "100"})
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_list_shows_every_profile_with_its_figures_and_what_is_assumed() -> None:
    displayed = message_of("list")
    assert all(f"  {name}: " in displayed for name in profile_names())
    assert "3,000 IOPS, 125 MiB/s, 0.7 ms" in displayed
    assert "300 IOPS when 5,400,000 credits are gone" in displayed
    assert "assumed: read_median, read_p99" in displayed


def test_list_is_json_with_the_same_profiles() -> None:
    listed = json.loads(message_of("list", "--json"))
    assert [profile["name"] for profile in listed["profiles"]] == list(profile_names())
    gp3 = next(profile for profile in listed["profiles"] if profile["name"] == "ebs-gp3")
    assert gp3["figures"]["read_iops"] == 3000
    assert "read_median" in gp3["assumed"]
    assert "tolerance_s" not in gp3["assumed"], "that is every emulated volume's, not the profile's"


@pytest.mark.parametrize("name", profile_names())
def test_show_has_every_figure_with_its_source(name: str) -> None:
    displayed = message_of("show", name)
    for figure, meaning in whole_profile(name).figures.items():
        (line,) = (line for line in displayed.splitlines() if line.startswith(f"  {figure} = "))
        assert meaning.source in line
        assert ("(assumed)" in line) == meaning.assumed


def test_show_of_the_instance_table_and_as_json() -> None:
    assert "m5.large." in message_of("show", "ec2-instances")
    assert json.loads(message_of("show", "ebs-gp2", "--json"))["figures"]["iops_per_gib"]["value"] == 3


@pytest.mark.parametrize(
    ("arguments", "failure", "result"),
    [
        (["show", "ebs-gp4"], UsageError, "perhaps you meant 'ebs-gp"),
        (["emulate", "path:/tmp"], UsageError, "is not emulated"),
        (["emulate", "emulated:ebs-gp3?sise=1GiB"], UsageError, "perhaps you meant 'size"),
        (["emulate", "emulated:ebs-gp3", "--name", "../x"], UsageError, "is not a volume's name"),
        (["emulate", "emulated:ebs-gp3", "--dir", "/nowhere/at/all"], MissingPrerequisite, "cannot be created"),
        (["emulate", "data:emulated:ebs-gp3,log:emulated:ebs-gp3"], UsageError, "a layout is several volumes"),
        (["probe", "data:path:/tmp,log:path:/var/tmp"], UsageError, "its components: data, log"),
        (["remove", "nobody"], UsageError, "no emulated volume 'nobody'"),
        (["stop", "/var/tmp/nobody"], UsageError, "no emulated volume"),
        (["counters", "nobody"], UsageError, "no emulated volume"),
        (["fault", "nobody", "stal"], UsageError, "perhaps you meant 'stall'"),
        (["fault", "nobody", "stall"], UsageError, "needs --for"),
        (["fault", "nobody", "detach", "--for", "3s"], UsageError, "detach has no --for"),
        (["fault", "nobody", "stall", "--for", "long"], UsageError, "a duration such as"),
        (["probe", "path:/nowhere"], MissingPrerequisite, "does not exist"),
        (["probe", "path:/tmp", "--seconds", "1"], UsageError, "a probe takes"),
        (["probe", "path:/tmp", "--fit", "mine.txt"], UsageError, "not a profile's file name"),
        (["probe", "storage-class:gp3"], UsageError, "kubernetes"),
        (["adopt", "/nowhere"], UsageError, "not a directory"),
    ],
)
def test_a_mistake_has_one_message_that_says_what_next(
    arguments: list[str], failure: type[VolbenchError], result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fio").write_text("#!/bin/sh\n")
    (tmp_path / "fio").chmod(0o755)
    monkeypatch.setattr(capabilities, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(failure) as caught:
        message_of(*arguments)
    assert result in str(caught.value)


def test_a_probe_without_fio_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(MissingPrerequisite, match="a probe needs fio") as caught:
        message_of("probe", f"path:{tmp_path}")
    assert "apt-get install" in str(caught.value)


def test_without_the_daemon_there_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3, never another volume in its place; nothing is left."""
    monkeypatch.setattr(emulated_needs, "find_daemon", lambda: None)
    with pytest.raises(MissingPrerequisite, match="volbench-volume") as caught:
        message_of("emulate", "emulated:ebs-gp3", "--dir", str(tmp_path))
    assert caught.value.exit_code == 3
    assert caught.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_adopt_marks_an_empty_directory_and_no_other(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "thesis.tex").write_text("x")
    message_of("adopt", str(empty))
    assert ownership.is_owned(empty)
    with pytest.raises(Refused):
        message_of("adopt", str(full))
    assert [path.name for path in full.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("kind", "value", "request_"),
    [
        ("stall", {"--for": "3s"}, {"kind": "stall", "seconds": 3.0}),
        (
            "error",
            {"--every": "100", "--ops": "read,write"},
            {"kind": "error", "every": 100, "ops": ["read", "write"]},
        ),
        ("power-cut", {"--keep": "25%"}, {"kind": "power_cut", "keep_share": 0.25}),
        ("slow", {"--factor": "5", "--ramp": "1m"}, {"kind": "slow_down", "factor": 5.0, "ramp_s": 60.0}),
        (
            "neighbour",
            {"--iops": "500", "--rate": "50MiB"},
            {"kind": "noisy_neighbour", "iops": 500.0, "bytes_per_s": 50 << 20},
        ),
        ("credits", {"--fill": "10%"}, {"kind": "credits", "fill": 0.1}),
        ("clear", {}, {"kind": "clear"}),
    ],
)
def test_a_fault_becomes_the_daemon_s_words(kind: str, value: dict[str, str], request_: dict[str, object]) -> None:
    assert parse_fault(kind, value) == request_


def test_the_help_names_every_fault() -> None:
    displayed = message_of("fault", "--help")
    assert all(kind in displayed for kind in FAULTS)


def probe_of(figures: dict[str, float], **changes: object) -> Probe:
    known_values: dict[str, object] = {
        "spec": "path:/mnt/x",
        "facts": VolumeFacts(path="/mnt/x", filesystem="xfs"),
        "figures": figures,
        "fall": None,
        "direct": True,
        "file_bytes": 1 << 30,
        "seconds": 60.0,
        "operations": 100_000,
        "moved_bytes": 1 << 30,
        "unsaturated": (),
        "uneven": {},
        "late_share": None,
    }
    return Probe(**{**known_values, **changes})  # type: ignore[arg-type]


def notes(**changes: object) -> str:
    probe = probe_of(expected_figures(resolve("ebs-gp3")), **changes)
    return "\n".join(volume_text.probe_notes(probe, nearest_profiles(probe.figures)))


def test_a_probe_on_a_busy_machine_says_so_and_names_no_nearest_profile() -> None:
    probe = probe_of(
        expected_figures(resolve("ebs-gp3")), delayed={"randread of 4 KiB, depth 1": 0.4}, foreign_cpu_ratio=0.8
    )
    text = "\n".join(volume_text.probe_notes(probe, []))
    assert "too busy: other work used 80 % of its CPUs" in text
    assert "randread of 4 KiB, depth 1 (at most 40 % of the time)" in text
    assert volume_text.probe_data(probe, [])["held_back"] == {"randread of 4 KiB, depth 1": 0.4}


def test_a_probe_says_what_it_cannot_see() -> None:
    gp2 = probe_of(expected_figures(resolve("ebs-gp2")))
    text = "\n".join(volume_text.probe_notes(gp2, nearest_profiles(gp2.figures)))
    assert "the end of burst credits" in text
    assert "5,400,000 I/Os of credit" in text
    assert "5,400,000" not in notes(), "a gp3 has no credits"


def test_a_probe_labels_what_is_no_ordinary_volume() -> None:
    memory = VolumeFacts(path="/dev/shm", filesystem="tmpfs", memory_backed=True)
    scaled = VolumeFacts(path="/x", emulated_profile="ebs-gp2", emulated_parameters={"time_scale": 20.0})
    assert "This is memory (tmpfs)" in notes(facts=memory)
    assert "emulated (ebs-gp2, time_scale 20)" in notes(facts=scaled)
    assert "2.5 % of the emulated volume's operations" in notes(late_share=0.025)
    assert "not support O_DIRECT" in notes(direct=False)
    assert "the queue was the limit" in notes(unsaturated=("read_iops",))
    assert "stalled in between" in notes(uneven={"read_iops": 1000.0})


@pytest.mark.parametrize(("after_s", "arguments"), [(4.0, "after 4 s"), (None, "ended early")])
def test_a_probe_tells_of_a_burst_that_ended(after_s: float | None, arguments: str) -> None:
    output = notes(fall=RateDrop(figure="read_iops", first=3000.0, last=150.0, after_s=after_s))
    assert arguments in output
    assert "150" in output


def test_a_probe_s_json_has_units_and_the_nearest_profiles() -> None:
    probe = probe_of(expected_figures(resolve("ebs-gp3")))
    data = volume_text.probe_data(probe, nearest_profiles(probe.figures))
    assert json.loads(json.dumps(data))["figures"]["read_iops"] == {"value": 3000.0, "unit": "IOPS"}
    assert data["nearest"][0]["profile"] == "ebs-gp3"
