"""The bill of materials: complete, valid, and the same text for the same tree."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.materials import PAGE_LIBRARY, PYTHON_LOCK, RUST_LOCKS, bill_of_materials, read_python_lock

ROOT = Path(__file__).parents[3]
EPOCH = 1_700_000_000


@pytest.fixture(scope="module")
def bill() -> str:
    return bill_of_materials(ROOT, "0.1.0", EPOCH)


def test_it_fits_its_schema_and_is_always_the_same(bill: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    assert bill == bill_of_materials(ROOT, "0.1.0", EPOCH)
    assert json.loads(bill)["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_it_has_every_package_of_the_lock_files(bill: str) -> None:
    listed = {(piece["purl"].partition("/")[0], piece["name"], piece["version"]) for piece in pieces(bill)}
    pins = re.findall(r"^([\w.-]+)==([^ ;\\]+)", (ROOT / PYTHON_LOCK).read_text(), re.MULTILINE)
    crates = [crate for lock in RUST_LOCKS for crate in tomllib.loads((ROOT / lock).read_text())["package"]]
    assert sorted(str(path.relative_to(ROOT)) for path in (ROOT / "runner").glob("*/Cargo.lock")) == sorted(
        RUST_LOCKS
    )
    expected = {("pkg:pypi", re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pins}
    expected |= {("pkg:cargo", crate["name"], crate["version"]) for crate in crates if "source" in crate}
    assert {entry for entry in listed if entry[0] != "pkg:npm"} == expected


def pieces(bill: str) -> list[dict[str, str]]:
    return [component for component in json.loads(bill)["components"] if "purl" in component]


def test_it_tells_what_is_needed_by_what_and_always(bill: str) -> None:
    content = json.loads(bill)
    scope = {component["name"]: component.get("scope") for component in content["components"]}
    assert (scope["pydantic-core"], scope["duckdb"], scope["hatchling"]) == ("required", "optional", "excluded")
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in content["dependencies"]}
    assert {"volbench-emulator", "volbench-lexer"} <= set(needs["volbench"])
    assert any(ref.startswith("cargo:fuser@") for ref in needs["volbench-emulator"])
    (rich,) = [ref for ref in needs if ref.startswith("pypi:rich@")]
    assert any(ref.startswith("pypi:pygments@") for ref in needs[rich])


def test_the_library_in_the_pages_has_its_version_and_hash(bill: str) -> None:
    (library,) = [component for component in json.loads(bill)["components"] if component["name"] == "uplot"]
    assert library["hashes"][0]["content"] == hashlib.sha256((ROOT / PAGE_LIBRARY).read_bytes()).hexdigest()
    assert library["purl"] == f"pkg:npm/uplot@{library['version']}"
    assert re.fullmatch(r"\d+\.\d+\.\d+", library["version"])


@pytest.mark.parametrize("line", ["x>=1", "x==1"])
def test_a_package_without_pin_and_hash_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not pinned"):
        read_python_lock(f"{line} \\\n    # via volbench (pyproject.toml)\n")
