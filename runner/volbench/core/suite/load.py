"""From a suite file to a checked suite; reports all faults at once, each with its line and the nearest match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from volbench.core.base.nearest import nearest_match, suggestion
from volbench.core.records.base import Record
from volbench.core.records.format_version import version_fault
from volbench.core.suite.bundled import bundled_path, bundled_suites
from volbench.core.suite.document import TEXT_BYTES_MAX, SuiteDocument, parse_document, set_value
from volbench.core.suite.document import Path as KeyPath
from volbench.core.suite.fault_text import fault_text
from volbench.core.suite.model import SuiteFile
from volbench.core.suite.own_files import with_absolute_paths
from volbench.core.suite.scale import scaled
from volbench.core.suite.sweep import sweep_faults
from volbench.errors import UsageError

Model = TypeVar("Model", bound=Record)


FaultFinder = Callable[[SuiteFile], Iterable[tuple[KeyPath, str]]]
"""Returns (key, fault) of a well-formed suite, for checks of other layers."""


def load_suite(
    path: Path, *, settings: Iterable[str] = (), more_faults: FaultFinder | None = None
) -> tuple[SuiteFile, str]:
    """Return the suite of a file, with each `--set KEY=VALUE` applied, and the file's text.

    Args:
        more_faults: checks of other layers, such as that of the volumes' SPECs.

    Raises UsageError listing every fault with file and line.
    """
    text = read_file(path)
    suite = check_suite(text, name=str(path), settings=settings, more_faults=more_faults)
    return with_absolute_paths(suite, bundled_path(path).parent), text


def check_suite(
    text: str,
    *,
    name: str,
    settings: Iterable[str] = (),
    more_faults: FaultFinder | None = None,
) -> SuiteFile:
    """Return the suite of a text. Raise UsageError as `load_suite` does."""
    document = suite_document(text, name=name, settings=settings)
    next_step = "see suites/README.md for every key, or point your editor at suites/suite.schema.json"
    suite = check_model(document, SuiteFile, noun="suite", next_step=next_step)
    faults = list(_faults_of_sweep(document, suite))
    for path, fault in more_faults(suite) if more_faults else ():
        faults.append(f"{document.origin(path)}: {'.'.join(map(str, path))}: {fault}")
    if faults:
        raise _faults_error(faults, noun="suite", next_step=next_step)
    return suite


def suite_document(text: str, *, name: str, settings: Iterable[str] = ()) -> SuiteDocument:
    """Return the document of a suite with its scale and each `--set`. Raise UsageError."""
    assignments = list(settings)
    document = scaled(parse_document(text, name=name), assignments)
    for assignment in assignments:
        document = set_value(document, assignment)
    return document


def _faults_of_sweep(document: SuiteDocument, suite: SuiteFile) -> Iterator[str]:
    for name, fault in sweep_faults(suite.sweep, suite.resolved()) if suite.sweep else ():
        path = ("sweep", "factors", name)
        yield f"{document.origin(path)}: {'.'.join(path)}: {fault}"


def check_model(document: SuiteDocument, model: type[Model], *, noun: str, next_step: str) -> Model:
    """Return the document as the model. Raise UsageError with every fault, with file and line."""
    _check_version(document, model, next_step=next_step)
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        causes = [fault for fault in errors if not _follows_from_another(fault, errors)]
        causes.sort(key=lambda fault: _line_of(document.origin(_existing_path(document.data, fault["loc"]))))
        faults = [_fault(document, model, fault) for fault in causes]
        raise _faults_error(faults, noun=noun, next_step=next_step) from error


def _check_version(document: SuiteDocument, model: type[Record], *, next_step: str) -> None:
    """Raise UsageError for a file of another format version; a file without `schema` is of today's."""
    field = model.model_fields.get("schema_")
    if field is None or not isinstance(document.data, dict) or "schema" not in document.data:
        return
    current = field.default if isinstance(field.default, int) else 1
    rewrite = f"write `schema: {current}` and today's keys; {next_step}"
    if fault := version_fault(document.data["schema"], current, rewrite=rewrite):
        raise UsageError(fault.message, where=document.origin(("schema",)), next_step=fault.next_step)


def _faults_error(faults: Sequence[str], *, noun: str, next_step: str) -> UsageError:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return UsageError(
        f"the {noun} has {len(faults)} fault{'s' if len(faults) > 1 else ''}",
        where=faults[0].split(": ", 1)[0] + more,
        evidence="\n    ".join(faults),
        next_step=next_step,
    )


def read_file(path: Path, *, noun: str = "suite") -> str:
    """Return the text of a suite or another YAML file. Raise UsageError.

    A path such as suites/quick.yaml means the bundled file if there is no such file here.
    """
    path = bundled_path(path)
    try:
        if not path.is_file() and path.exists():  # reading a pipe or device might never end
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
    nearest = nearest_match(path.name, names)
    if nearest is not None:
        return f"perhaps you meant {folder / nearest}"
    bundled = {each.name: each for each in bundled_suites()}
    nearest = nearest_match(path.with_suffix(".yaml").name, [*bundled])
    if nearest is not None:
        return f"perhaps you meant {bundled[nearest]}, which comes with volbench"
    return f"files in that directory: {', '.join(names)}" if names else ""


def _fault(document: SuiteDocument, model: type[Record], fault: Any) -> str:
    path = _existing_path(document.data, fault["loc"])
    key_text = ".".join(str(component) for component in path) or "file"
    if fault["type"] == "extra_forbidden":
        keys = _sibling_keys(model, fault["loc"])
        return f"{document.origin(path)}: {key_text}: unknown key, {suggestion(str(path[-1]), keys)}"
    if fault["type"] == "missing":
        return f"{document.origin(path)}: {key_text}: the key {fault['loc'][-1]!r} is missing"
    return f"{document.origin(path)}: {key_text}: {fault_text(fault)}{_near_choice(fault)}"


def _line_of(origin: str) -> tuple[bool, int]:
    """Return what sorts origins by line: FILE:12 by its number, `--set KEY` after all lines."""
    _, _, line = origin.rpartition(":")
    return not line.isdigit(), int(line) if line.isdigit() else 0


def _follows_from_another(fault: Any, faults: Sequence[Any]) -> bool:
    """Return whether the fault follows from another: without its faulty elements a list seems too short."""
    location = fault["loc"]
    return fault["type"] == "too_short" and any(
        candidate is not fault and candidate["loc"][: len(location)] == location for candidate in faults
    )


def _near_choice(fault: Any) -> str:
    if fault["type"] not in {"literal_error", "union_tag_invalid"} or not isinstance(fault["input"], str | dict):
        return ""
    context = fault.get("ctx", {})
    choices = [
        choice.strip(" '")
        for choice in str(context.get("expected") or context.get("expected_tags", ""))
        .replace(" or ", ", ")
        .split(",")
    ]
    spelling = fault["input"] if isinstance(fault["input"], str) else str(fault["input"].get("kind", ""))
    nearest = nearest_match(spelling, choices)
    return f"; perhaps you meant {nearest!r}" if nearest else ""


def _existing_path(data: Any, location: tuple[str | int, ...]) -> KeyPath:
    """Return the location without pydantic's names of union members, as far as the data has it."""
    path: list[str | int] = []
    for component in location:
        within = isinstance(data, list) and isinstance(component, int) and component < len(data)
        if within or (isinstance(data, dict) and component in data):
            data = data[component]
            path.append(component)
    return tuple(path)


def _sibling_keys(model: type[Record], location: tuple[str | int, ...]) -> list[str]:
    """Return the other keys that the JSON Schema has at a fault's location, over all possible members of a union.

    Args:
        location: as pydantic gives it, with the tag of a union's member before what is in the member.
    """
    schema = _json_schema(model)
    nodes = [schema]
    for component in location[:-1]:
        tagged = [node["discriminator"]["mapping"].get(component) for node in nodes if "discriminator" in node]
        if any(tagged):
            nodes = [_definition(schema, reference) for reference in tagged if reference]
            continue
        members = [member for node in nodes for member in _members(schema, node)]
        # The name of a member of a union without tags is in the location, and not in the data.
        nodes = [child for member in members if (child := _child(member, component))] or nodes
    keys = {key for node in nodes for member in _members(schema, node) for key in member.get("properties", {})}
    return sorted(keys - {str(location[-1])})


@cache
def _json_schema(model: type[Record]) -> dict[str, Any]:
    return model.model_json_schema()


def _child(node: dict[str, Any], component: str | int) -> Any:
    return node.get("items") if isinstance(component, int) else _of_mapping(node, component)


def _of_mapping(node: dict[str, Any], key: str) -> Any:
    """Return the schema of a key: of a named one, or of any key of a mapping with free keys."""
    child = node.get("properties", {}).get(key) or node.get("additionalProperties")
    return child if isinstance(child, dict) else None


def _members(schema: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in node:
        return _members(schema, _definition(schema, node["$ref"]))
    unions = node.get("oneOf") or node.get("anyOf")
    if unions:
        return [member for option in unions for member in _members(schema, option)]
    return [node]


def _definition(schema: dict[str, Any], reference: str) -> dict[str, Any]:
    definition: dict[str, Any] = schema["$defs"][reference.rsplit("/", 1)[1]]
    return definition
