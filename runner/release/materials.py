"""Bill of materials of a release, CycloneDX JSON: the packages of the lock files, and the library of the pages."""

from __future__ import annotations

import datetime
import hashlib
import re
import tomllib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYTHON_LOCK = "requirements.lock"
RUST_LOCKS = ("runner/emulator/Cargo.lock", "runner/lexer/Cargo.lock")
PAGE_LIBRARY = "runner/volbench/results/report/page/uplot/uPlot.iife.min.js"
_NAMESPACE = uuid.UUID("6f1d7e5a-0c1b-5b52-9d0b-2b1f3a1c7e10")
_PROJECT = "volbench (pyproject.toml"
_LOCKED_BY = "volbench:locked-by"


@dataclass(frozen=True, kw_only=True)
class Material:
    """A package of a lock file.

    Args:
        needed_by: names of the packages that need it; the project itself is `volbench`.
        marker: for which Python it is, as in PEP 508; empty: for all.
        sha256: of its archive, where the lock file has exactly one.
    """

    name: str
    version: str
    needed_by: frozenset[str]
    marker: str = ""
    sha256: str = ""


def read_python_lock(text: str) -> list[Material]:
    """Return the packages of a lock file of `uv pip compile` with hashes and annotations. Raise ValueError."""
    materials = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        lines = block.splitlines()
        requirement = Requirement(lines[0].rstrip("\\ "))
        (pin,) = requirement.specifier
        if pin.operator != "==" or "--hash=sha256:" not in block:
            raise ValueError(f"{requirement.name} is not pinned by version and hash")
        parents = [line.strip().lstrip("#").strip().removeprefix("via").strip() for line in lines if "#" in line]
        materials.append(
            Material(
                name=canonicalize_name(requirement.name),
                version=pin.version,
                needed_by=frozenset(
                    "volbench" if parent.startswith(_PROJECT) else canonicalize_name(parent)
                    for parent in parents
                    if parent and not parent.endswith(":build)")
                ),
                marker=str(requirement.marker or ""),
            )
        )
    return materials


def read_rust_lock(text: str) -> list[Material]:
    """Return the crates of a Cargo.lock; those of this project have no hash there. Raise ValueError, KeyError."""
    packages = tomllib.loads(text)["package"]
    by_name: dict[str, list[str]] = {}
    for package in packages:
        by_name.setdefault(package["name"], []).append(package["version"])
    parents: dict[str, set[str]] = {}
    for package in packages:
        for dependency in package.get("dependencies", ()):
            name, *version = dependency.split()
            key = f"{name} {version[0] if version else by_name[name][0]}"
            parents.setdefault(key, set()).add(f"{package['name']} {package['version']}")
    return [
        Material(
            name=package["name"],
            version=package["version"],
            needed_by=frozenset(parents.get(f"{package['name']} {package['version']}", ())),
            sha256=package["checksum"] if "source" in package else "",
        )
        for package in packages
    ]


def bill_of_materials(source: Path, version: str, epoch: int) -> str:
    """Return the bill of materials of an exported tree: the same text for the same tree.

    Args:
        epoch: its time, in seconds since 1970.

    Raises OSError, ValueError, KeyError for a lock file that is missing or has another form.
    """
    project = _Tree(
        root=Component(
            name="volbench",
            version=version,
            type=ComponentType.APPLICATION,
            bom_ref="volbench",
            purl=PackageURL("pypi", name="volbench", version=version),
        )
    )
    project.add_python(read_python_lock((source / PYTHON_LOCK).read_text(encoding="utf-8")), _core(source))
    for lock in RUST_LOCKS:
        for crate in read_rust_lock((source / lock).read_text(encoding="utf-8")):
            key = f"{crate.name} {crate.version}"
            if crate.sha256:
                project.add(key, _component("cargo", crate, lock), crate.needed_by)
            else:
                project.add(key, _own_crate(crate), ("volbench",))
    project.add("uplot", _page_library(source / PAGE_LIBRARY), ("volbench",))
    return project.to_json(serial=uuid.uuid5(_NAMESPACE, f"{version} {epoch}"), epoch=epoch)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A component, its name in its lock file (of which there may be several versions), and who needs it."""

    name: str
    component: Component
    needed_by: Collection[str]


@dataclass(frozen=True, kw_only=True)
class _Tree:
    """The project and its parts."""

    root: Component
    parts: list[_Part] = field(default_factory=list)

    def add(self, name: str, component: Component, needed_by: Collection[str]) -> None:
        self.parts.append(_Part(name=name, component=component, needed_by=needed_by))

    def add_python(self, materials: Sequence[Material], core: frozenset[str]) -> None:
        """Add packages: required if one that the core names needs it, excluded if it only builds the package."""
        required = _closure(materials, core)
        runtime = required | _closure(materials, frozenset(m.name for m in materials if "volbench" in m.needed_by))
        for material in materials:
            component = _component("pypi", material, PYTHON_LOCK)
            scope = ComponentScope.OPTIONAL if material.name in runtime else ComponentScope.EXCLUDED
            component.scope = ComponentScope.REQUIRED if material.name in required else scope
            self.add(material.name, component, material.needed_by)

    def to_json(self, *, serial: uuid.UUID, epoch: int) -> str:
        time = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
        bom = Bom(
            serial_number=serial,
            components=[part.component for part in self.parts],
            metadata=BomMetaData(component=self.root, timestamp=time),
        )
        for name, component in (("volbench", self.root), *((part.name, part.component) for part in self.parts)):
            bom.register_dependency(component, [part.component for part in self.parts if name in part.needed_by])
        return str(JsonV1Dot6(bom).output_as_string(indent=1)) + "\n"


def _closure(materials: Sequence[Material], names: frozenset[str]) -> frozenset[str]:
    """Return packages and, again and again, what they need."""
    reached = set(names)
    while True:
        further = {material.name for material in materials if material.needed_by & reached} | reached
        if further == reached:
            return frozenset(reached)
        reached = further


def _core(source: Path) -> frozenset[str]:
    """Return the names that the project itself needs, without extras."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return frozenset(canonicalize_name(Requirement(text).name) for text in project["dependencies"])


def _component(kind: str, material: Material, lock: str) -> Component:
    properties = {_LOCKED_BY: lock, **({"volbench:python": material.marker} if material.marker else {})}
    return Component(
        name=material.name,
        version=material.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{kind}:{material.name}@{material.version}",
        purl=PackageURL(kind, name=material.name, version=material.version),
        hashes=_hashes(material.sha256),
        properties=_properties(properties),
    )


def _own_crate(crate: Material) -> Component:
    return Component(name=crate.name, version=crate.version, type=ComponentType.APPLICATION, bom_ref=crate.name)


def _page_library(path: Path) -> Component:
    """Return the component of the library that draws the charts of a page. Raise ValueError."""
    content = path.read_bytes()
    version = re.search(rb"uPlot \(v(\d+\.\d+\.\d+)\)", content)
    if version is None:
        raise ValueError(f"{path.name} tells no version")
    return Component(
        name="uplot",
        version=version[1].decode(),
        type=ComponentType.LIBRARY,
        bom_ref="npm:uplot",
        purl=PackageURL("npm", name="uplot", version=version[1].decode()),
        hashes=_hashes(hashlib.sha256(content).hexdigest()),
        properties=_properties({"volbench:file": PAGE_LIBRARY}),
    )


def _hashes(sha256: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []


def _properties(values: Mapping[str, str]) -> list[Property]:
    return [Property(name=name, value=value) for name, value in values.items()]
