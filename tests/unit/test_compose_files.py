"""The compose files in docker/: what each container may do, read from the files themselves."""

from __future__ import annotations

import json
import runpy
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import pytest
import yaml
from typer.main import get_command

from volbench.cli.observe import app as observe
from volbench.errors import UsageError
from volbench.machine.placement.docker.compose import SCRIPT, compose_document

DOCKER = Path(__file__).parents[2] / "docker"
MAIN = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
EMULATED = yaml.safe_load((DOCKER / "volumes" / "compose.yaml").read_text())["services"]
OBSERVE = yaml.safe_load((DOCKER / "observe.yaml").read_text())["services"]
WRITES = {"server-a", "server-b", "runner", "volume-b"}
"""`prepare` changes owners and writes no file."""


@pytest.mark.parametrize("name", sorted(MAIN))
def test_a_container_of_a_run_is_not_root_and_has_no_rights(name: str) -> None:
    service: dict[str, Any] = MAIN[name]
    if name == "prepare":
        assert service["cap_add"] == ["CHOWN"]
        assert service["profiles"] == ["prepare"]
        assert service["command"][0] == "chown"
    else:
        assert service["user"] == "${RUN_AS:-999:999}"
        assert "cap_add" not in service


@pytest.mark.parametrize(
    ("name", "service"), [*MAIN.items(), ("volume-b", EMULATED["volume-b"])], ids=[*MAIN, "volume-b"]
)
def test_every_container_is_confined(name: str, service: dict[str, Any]) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["network_mode"] == "none"
    assert service["pids_limit"] > 0
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    assert not any("docker.sock" in volume for volume in service["volumes"])
    assert ("tmpfs" in service) == (name in WRITES)


def test_only_beside_an_emulated_volume_others_are_root() -> None:
    """Its directory is root's alone."""
    assert {name for name, service in EMULATED.items() if service.get("user") == "0:0"} == set(EMULATED)
    for name in EMULATED.keys() - {"volume-b"}:
        assert EMULATED[name]["cap_add"] == ["CHOWN", "DAC_OVERRIDE", "FOWNER"]


def test_the_generated_file_is_the_plain_one_for_other_volumes() -> None:
    """All that confines a service; what differs is where the supervisor's script comes from, and the names."""
    services = compose_document({"a": "/mnt/a", "b": "/mnt/b"})["services"]
    assert set(services) == set(MAIN)
    same = {
        "image",
        "user",
        "network_mode",
        "cap_drop",
        "cap_add",
        "security_opt",
        "read_only",
        "tmpfs",
        "pids_limit",
        "stop_grace_period",
        "environment",
        "entrypoint",
        "profiles",
        "depends_on",
    }
    for name, service in services.items():
        plain = {key: value for key, value in MAIN[name].items() if key in same}
        assert {key: value for key, value in service.items() if key in same} == plain, name
        assert set(service) == set(MAIN[name]), name


@pytest.mark.parametrize(
    ("directories", "message"),
    [
        ({}, "needs a volume"),
        ({"GP3": "/mnt/a"}, "not a valid service name"),
        ({"a": "mnt/a"}, "not an absolute path"),
        ({"a": "/mnt:/a"}, "not an absolute path"),
    ],
)
def test_what_compose_cannot_use_is_refused(directories: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compose_document(directories)


def test_a_dollar_in_a_path_is_no_variable() -> None:
    mounts = compose_document({"a": "/mnt/$HOME"})["services"]["server-a"]["volumes"]
    assert "/mnt/$$HOME:/volumes/a" in mounts


@pytest.mark.parametrize("name", sorted(OBSERVE))
def test_the_observer_only_reads_what_is_the_servers(name: str) -> None:
    """It shares the server's container, with no right and with its volumes read-only."""
    service: dict[str, Any] = OBSERVE[name]
    assert service["user"] == "${RUN_AS:-999:999}"
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["read_only"] is True
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["volumes_from"] == ["container:${SERVER_CONTAINER}:ro"]
    written = [volume for volume in service["volumes"] if not volume.endswith(":ro")]
    assert [volume.rpartition(":")[2] for volume in written] == ["/observations"]
    assert not any("docker.sock" in volume for volume in service["volumes"])


def test_the_observer_takes_options_that_there_are() -> None:
    """And never a password on its command line."""
    command = OBSERVE["observe"]["command"]
    assert command[:2] == ["volbench", "observe"]
    named = {argument for argument in command if argument.startswith("--")}
    names = {name for option in get_command(observe).params for name in option.opts}
    assert named <= names


def test_the_images_command_can_be_imported_by_processes_of_a_replay() -> None:
    """multiprocessing runs the main script again in each process that it spawns, under this name."""
    names = runpy.run_path(str(DOCKER / "tools" / "volbench"), run_name="__mp_main__")
    assert callable(names["main"])


@pytest.mark.parametrize("file", sorted(DOCKER.rglob("*.yaml")), ids=lambda file: str(file.relative_to(DOCKER)))
def test_the_compose_of_debian_12_takes_every_file(file: Path) -> None:
    """It refuses keys of later versions, such as a `name:` for all of it."""
    assert faults_of_1_29(yaml.safe_load(file.read_text())) == []


def test_the_compose_of_debian_12_takes_what_the_command_prints() -> None:
    document = compose_document({"gp2": "/mnt/a", "gp3": "/mnt/b"})
    assert faults_of_1_29(document) == []
    assert faults_of_1_29({"name": "x", **document}) != []


def faults_of_1_29(document: dict[str, Any]) -> list[str]:
    schema = json.loads((DOCKER.parent / "tests/fixtures/compose/compose-1.29.2.json").read_text())
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(document)]


def test_the_script_that_prepare_copies_is_where_the_package_has_it() -> None:
    inside = PurePosixPath(SCRIPT).relative_to("/opt/volbench/app")
    assert (DOCKER.parent / "runner" / inside).is_file()
