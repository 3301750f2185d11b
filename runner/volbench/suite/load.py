"""From a suite file to a checked suite; all faults at once, each with its line and the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from volbench.errors import UsageError
from volbench.records.base import Record
from volbench.suite.document import TEXT_BYTES_MAX, Document, parse_document, set_value
from volbench.suite.document import Path as KeyPath
from volbench.suite.model import SuiteFile
from volbench.suite.scale import scaled
from volbench.suite.shipped import shipped
from volbench.suite.sweep import sweep_faults

Model = TypeVar("Model", bound=Record)


FaultFinder = Callable[[SuiteFile], Iterable[tuple[KeyPath, str]]]
"""Gives (key, what is wrong with it) of a suite that is well formed, for what this layer does not know."""


def load_suite(
    path: Path, *, settings: Iterable[str] = (), more_faults: FaultFinder | None = None
) -> tuple[SuiteFile, str]:
    """The suite in a file, with each `--set KEY=VALUE` applied, and the file's text.

    Args:
        more_faults: checks of other layers, such as that of the volumes' SPECs.

    Raises UsageError listing every fault with file and line.
    """
    text = read_file(path)
    return check_suite(text, name=str(path), settings=settings, more_faults=more_faults), text


def check_suite(
    text: str, *, name: str, settings: Iterable[str] = (), more_faults: FaultFinder | None = None
) -> SuiteFile:
    """The suite in a text. Raises UsageError as `load_suite` does."""
    document = scaled(parse_document(text, name=name), settings)
    for assignment in settings:
        document = set_value(document, assignment)
    next_step = "see suites/README.md for every key, or point your editor at suites/suite.schema.json"
    suite = check_model(document, SuiteFile, noun="suite", next_step=next_step)
    faults = list(_faults_of_sweep(document, suite))
    for path, fault in more_faults(suite) if more_faults else ():
        faults.append(f"{document.origin(path)}: {'.'.join(map(str, path))}: {fault}")
    if faults:
        raise _faulty(faults, noun="suite", next_step=next_step)
    return suite


def _faults_of_sweep(document: Document, suite: SuiteFile) -> Iterator[str]:
    for name, fault in sweep_faults(suite.sweep, suite.resolved()) if suite.sweep else ():
        path = ("sweep", "factors", name)
        yield f"{document.origin(path)}: {'.'.join(path)}: {fault}"


def check_model(document: Document, model: type[Model], *, noun: str, next_step: str) -> Model:
    """The document as the model. Raises UsageError listing every fault with file and line."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        found = error.errors(include_url=False)
        faults = [_fault(document, model, fault) for fault in found if not _follows_from_another(fault, found)]
        raise _faulty(faults, noun=noun, next_step=next_step) from error


def _faulty(faults: Sequence[str], *, noun: str, next_step: str) -> UsageError:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return UsageError(
        f"the {noun} has {len(faults)} fault{'s' if len(faults) > 1 else ''}",
        where=faults[0].split(": ", 1)[0] + more,
        evidence="\n    ".join(faults),
        next_step=next_step,
    )


def read_file(path: Path, *, noun: str = "suite") -> str:
    """The text of a suite or another file of YAML. Raises UsageError.

    suites/quick.yaml and the like are those that volbench came with where there is no such file here.
    """
    path = shipped(path)
    try:
        if not path.is_file() and path.exists():  # a pipe might never answer, a device never end
            raise UsageError(f"a {noun} file has to be a regular file", where=str(path))
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(TEXT_BYTES_MAX + 1)
        if len(text) > TEXT_BYTES_MAX:
            raise UsageError(f"a {noun} file has {TEXT_BYTES_MAX} bytes at most", where=str(path))
        return text
    except FileNotFoundError as error:
        raise UsageError(f"no such {noun} file", where=str(path), evidence=_nearest_file(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the {noun} file cannot be read", where=str(path), evidence=str(error)) from error


def _nearest_file(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path()
    names = sorted(entry.name for entry in folder.glob("*.yaml"))
    near = difflib.get_close_matches(path.name, names, n=1)
    if near:
        return f"perhaps you meant {folder / near[0]}"
    return f"files there: {', '.join(names)}" if names else ""


def _fault(document: Document, model: type[Record], fault: Any) -> str:
    path = _existing_path(document.data, fault["loc"])
    shown = ".".join(str(part) for part in path) or "file"
    if fault["type"] == "extra_forbidden":
        known = _keys_beside(model, path)
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        hint = f", perhaps you meant {near[0]!r}" if near else f" (known here: {', '.join(known)})"
        return f"{document.origin(path)}: {shown}: unknown key{hint}"
    if fault["type"] == "missing":
        return f"{document.origin(path)}: {shown}: the key {fault['loc'][-1]!r} is missing"
    message = fault["msg"].removeprefix("Value error, ")
    near_value = _near_choice(fault)
    return f"{document.origin(path)}: {shown}: {message}{near_value}"


def _follows_from_another(fault: Any, faults: Sequence[Any]) -> bool:
    """A list whose elements have faults is also called too short, once they are left out."""
    place = fault["loc"]
    return fault["type"] == "too_short" and any(
        other is not fault and other["loc"][: len(place)] == place for other in faults
    )


def _near_choice(fault: Any) -> str:
    if fault["type"] not in {"literal_error", "union_tag_invalid"} or not isinstance(fault["input"], str | dict):
        return ""
    context = fault.get("ctx", {})
    choices = [
        word.strip(" '")
        for word in str(context.get("expected") or context.get("expected_tags", ""))
        .replace(" or ", ", ")
        .split(",")
    ]
    given = fault["input"] if isinstance(fault["input"], str) else str(fault["input"].get("kind", ""))
    near = difflib.get_close_matches(given, choices, n=1)
    return f"; perhaps you meant {near[0]!r}" if near else ""


def _existing_path(data: Any, location: tuple[str | int, ...]) -> KeyPath:
    """The location without the names that pydantic puts in for union members, as far as the data has it."""
    path: list[str | int] = []
    for part in location:
        within = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if within or (isinstance(data, dict) and part in data):
            data = data[part]
            path.append(part)
    return tuple(path)


def _keys_beside(model: type[Record], path: KeyPath) -> list[str]:
    """The keys that the JSON Schema knows at the path's parent, over all members of a union there."""
    schema = model.model_json_schema()
    nodes = [schema]
    for part in path[:-1]:
        nodes = [child for node in nodes for child in _children(schema, node, part)]
    return sorted({key for node in nodes for key in node.get("properties", {})})


def _children(schema: dict[str, Any], node: dict[str, Any], part: str | int) -> list[dict[str, Any]]:
    found = node.get("items") if isinstance(part, int) else _of_mapping(node, part)
    return _members(schema, found) if found else []


def _of_mapping(node: dict[str, Any], part: str) -> Any:
    """What the schema says of a key: one that it names, or any key of a mapping whose keys are free."""
    found = node.get("properties", {}).get(part) or node.get("additionalProperties")
    return found if isinstance(found, dict) else None


def _members(schema: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in node:
        return _members(schema, schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
    unions = node.get("oneOf") or node.get("anyOf")
    if unions:
        return [member for option in unions for member in _members(schema, option)]
    return [node]
