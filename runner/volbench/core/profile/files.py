"""Volume profiles on disk: listed, loaded, checked, and merged with their bases.

Every profile extends `common.yaml` and its `base`; the derived profile wins, name by name. A user names his own
profile by its path, which ends in .yaml; its bases are still in suites/volumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from volbench.core.base.nearest import suggestion
from volbench.core.profile.instances import instance_rows
from volbench.core.profile.schema import Profile
from volbench.core.suite.bundled import bundled_path
from volbench.core.suite.document import parse_document
from volbench.core.suite.load import read_file
from volbench.errors import UsageError

COMMON = "common"
INSTANCES = "ec2-instances"
_FRAGMENTS = (COMMON, INSTANCES)


def profiles_directory() -> Path:
    """Return suites/volumes of the working directory, else the bundled one."""
    return bundled_path(Path("suites/volumes"))


def profile_names(directory: Path | None = None) -> tuple[str, ...]:
    """Return the profiles that a SPEC may name."""
    names = sorted(path.stem for path in (directory or profiles_directory()).glob("*.yaml"))
    return tuple(name for name in names if name not in _FRAGMENTS)


def load_profile(name: str, directory: Path | None = None) -> Profile:
    """Load and check one file of suites/volumes, or the one at a path.

    Raises UsageError with file and line, and for an unknown name with the nearest match.
    """
    if is_profile_path(name):
        return _load(Path(name).resolve().parent, Path(name).stem)
    return _load((directory or profiles_directory()).resolve(), name)


def is_profile_path(name: str) -> bool:
    """Return whether the name is a path of a profile's file, such as ./mine.yaml."""
    return name.endswith(".yaml")


@cache
def _load(directory: Path, name: str) -> Profile:
    path = directory / f"{name}.yaml"
    if not path.exists():
        names = profile_names(directory)
        raise UsageError(
            f"unknown volume profile {name!r}",
            where=str(directory),
            evidence=f"no file {path}",
            next_step=suggestion(name, names),
        )
    document = parse_document(read_file(path, noun="profile"), name=str(path))
    try:
        profile = Profile.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{'.'.join(str(key) for key in first['loc'])}: {first['msg']}", where=document.origin(first["loc"])
        ) from error
    if profile.name != name:
        raise UsageError(f"the profile in {name}.yaml is called {profile.name!r}", where=document.origin(("name",)))
    if name == INSTANCES:
        rows = instance_rows(directory / f"{INSTANCES}.csv")
        profile = profile.model_copy(update={"table": rows | profile.table})
    return profile


def whole_profile(name: str, directory: Path | None = None) -> Profile:
    """Return a profile merged with its bases, as `resolve` uses it. Raise UsageError."""
    try:
        return merged_profile(name, {}, (directory or profiles_directory()).resolve())
    except ValueError as error:
        raise UsageError(str(error), where=f"profile {name}") from error


def merged_profile(name: str, options: Mapping[str, str], directory: Path) -> Profile:
    """Return the profile merged with its base, which an option may choose, and common.yaml. Raise ValueError."""
    if name in _FRAGMENTS:
        raise ValueError(f"{name} is not a complete profile; known profiles: {', '.join(profile_names(directory))}")
    chain = [load_profile(name, directory)]
    while (base := _base_of(chain[-1], options)) is not None:
        if len(chain) > 3 or base in (profile.name for profile in chain) or base in _FRAGMENTS:
            raise ValueError(f"{chain[-1].name} cannot extend {base!r}")
        chain.append(load_profile(base, directory))
    merged: dict[str, Any] = {}
    for profile in (load_profile(COMMON, directory), *reversed(chain)):
        for key, value in profile.model_dump(by_alias=True, exclude_unset=True).items():
            below = merged.get(key)
            if isinstance(below, dict) and isinstance(value, dict) and key != "first_touch":
                merged[key] = below | value
            elif key == "limits":
                replaced = {limit["name"] for limit in value}
                merged[key] = [limit for limit in below or () if limit["name"] not in replaced] + list(value)
            elif key == "checks":
                merged[key] = [*(below or ()), *value]
            else:
                merged[key] = value
    return Profile.model_validate(merged)


def _base_of(profile: Profile, options: Mapping[str, str]) -> str | None:
    chosen = next((key for key, parameter in profile.parameters.items() if parameter.kind == "profile"), None)
    return options.get(chosen, str(profile.parameters[chosen].default)) if chosen else profile.base
