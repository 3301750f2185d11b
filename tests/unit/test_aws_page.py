"""docs/questions/on-aws.md: costs by the price list, commands by the vendor's description of its interface."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import botocore.loaders
import pytest
from botocore import xform_name
from botocore.model import ServiceModel, StructureShape
from botocore.validate import ParamValidator
from botocore.waiter import WaiterModel
from command_line import ROOT

from volbench.core.profile.resolve import resolve_spec
from volbench.results.credits.prices import HOURS_IN_MONTH, load_prices, monthly_cost

PAGE = ROOT / "docs/questions/on-aws.md"
PLACEHOLDER = re.compile(r"\b(AMI|KEY|SUBNET|GROUP|ZONE|INSTANCE|VOLUME|ROOTVOLUME|FILESYSTEM|TARGET)\b")
IDENTIFIER, OF_ROOT_VOLUME = "fs-0123456789abcdef01", "fsvol-0123456789abcdef0"
"""As long as the vendor's."""
ROW = re.compile(r"^\| \[.*?\]\(.*?\) \| (\d+) (\S+) \| (.*?) \| (\d+) \| ([\d.]+) \|$", re.MULTILINE)


def commands() -> list[str]:
    """Return the lines of the page that begin with `aws`."""
    return [line for line in PAGE.read_text().splitlines() if line.startswith("aws ")]


def test_the_price_of_each_report_is_that_of_its_instances_volumes_and_hours() -> None:
    prices, rows = load_prices(), ROW.findall(PAGE.read_text())
    assert len(rows) == 5
    for count, instance, volumes, hours, stated in rows:
        hourly = int(count) * prices.instances[instance].hour
        for spec in re.findall(r"`([^`]+)`", volumes):
            volume = resolve_spec(spec, name="volume")
            cost = monthly_cost(
                prices, volume.profile, volume.parameters, read_bytes_per_s=0.0, write_bytes_per_s=0.0
            )
            assert cost is not None, spec
            hourly += cost.month / HOURS_IN_MONTH
        assert float(stated) == pytest.approx(hourly * int(hours), abs=0.005), (instance, volumes)


def faults(command: str) -> Iterator[str]:
    """Yield what the vendor's description of its services says against a command."""
    _, service, action, *words = shlex.split(PLACEHOLDER.sub(_identifier, command))
    loader = botocore.loaders.Loader()
    model = ServiceModel(loader.load_service_model(service, "service-2"), service)
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if action == "wait":
        waiters = WaiterModel(loader.load_service_model(service, "waiters-2"))
        names = {xform_name(name, "-"): name for name in waiters.waiter_names}
        waited, *words = words
        if waited not in names:
            yield f"no waiter {waited}"
            return
        operation = waiters.get_waiter(names[waited]).operation
    elif action in operations:
        operation = operations[action]
    else:
        yield f"no operation {action}"
        return
    shape = model.operation_model(operation).input_shape
    assert isinstance(shape, StructureShape)
    members = {xform_name(name, "-"): name for name in shape.members}
    given: dict[str, Any] = {"MinCount": 1, "MaxCount": 1} if action == "run-instances" else {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = members.get(option.removeprefix("--"))
        if name is None and (action, option) == ("run-instances", "--count"):  # the command line's own
            continue
        if name is None:
            yield f"{action} has no {option}"
            continue
        given[name] = _value(value, shape.members[name].type_name)
    for token in shape.metadata.get("required", ()):
        if shape.members[token].metadata.get("idempotencyToken"):
            given.setdefault(token, "made by the program")
    report = ParamValidator().validate(given, shape)
    if report.has_errors():
        yield report.generate_report()


def _identifier(match: re.Match[str]) -> str:
    return OF_ROOT_VOLUME if match[0] == "ROOTVOLUME" else IDENTIFIER


def _value(text: str, kind: str) -> Any:
    """Return an argument as the program sends it: JSON, `Key=x,Value=y` for a structure, else a text or number."""
    if text.startswith(("{", "[")):
        return json.loads(text)
    if kind == "integer":
        return int(text)
    if kind != "list":
        return text
    return [_structure(text)] if "=" in text else [text]


def _structure(text: str) -> dict[str, Any]:
    """Return `A=b,C=[{D=e,F=g}]`, the program's own form of a structure."""
    result: dict[str, Any] = {}
    for name, inner, plain in re.findall(r"(\w+)=(?:\[\{(.*?)\}\]|([^,\[]+))", text):
        result[name] = [_structure(inner)] if inner else plain
    for name in ("Values",):
        if name in result:
            result[name] = [result[name]]
    return result


@pytest.mark.parametrize("command", commands(), ids=lambda text: " ".join(text.split()[1:4]))
def test_a_command_is_one_of_the_vendors(command: str) -> None:
    assert list(faults(command)) == []


def test_a_wrong_command_has_a_fault() -> None:
    """The check itself."""
    assert list(faults("aws ec2 make-volume")) == ["no operation make-volume"]
    assert list(faults("aws ec2 wait volume-ready --volume-ids v")) == ["no waiter volume-ready"]
    assert "has no --kind" in "".join(faults("aws ec2 create-volume --kind gp2"))
    assert "ThroughputCapacity" in "".join(
        faults(
            "aws fsx create-file-system --file-system-type OPENZFS --storage-capacity 64 --subnet-ids S "
            """--open-zfs-configuration '{"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": "64"}'"""
        )
    )


def test_what_the_page_makes_it_takes_away() -> None:
    text = "\n".join(commands())
    made = set(re.findall(r"aws (\w+) create-([\w-]+)", text)) - {("fsx", "volume")}
    assert {(service, what) for service, what in made if f"aws {service} delete-{what}" not in text} == set()
    assert "run-instances" in text
    assert "terminate-instances" in text
