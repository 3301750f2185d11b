"""A YAML document with the line of every key, so that a fault can be shown where it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from volbench.errors import UsageError

Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Document:
    """Plain data, the file's name, and for each path the line (from 1) or the option that set it."""

    name: str
    data: dict[str, Any]
    origins: Mapping[Path, str] = field(default_factory=dict)

    def origin(self, path: Path) -> str:
        """`file:line` of the path or of its nearest parent; `--set key=value` for what an option set."""
        for length in range(len(path), -1, -1):
            origin = self.origins.get(path[:length])
            if origin is not None:
                return origin
        return self.name


def parse_document(text: str, *, name: str) -> Document:
    """Parse YAML without constructing objects.

    Raises UsageError with file and line for broken YAML, duplicate keys, tags, or a document that is no mapping.
    """
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = re.sub(r"\s+", " ", error.problem or "broken YAML")
        raise UsageError(f"the YAML cannot be read: {problem}", where=f"{name}:{line}") from error
    except YAMLError as error:
        raise UsageError("the YAML cannot be read", where=name, evidence=str(error)) from error
    if not isinstance(tree, CommentedMap):
        raise UsageError("the file has to be a mapping of keys to values", where=f"{name}:1")
    origins: dict[Path, str] = {}
    data = _plain(tree, (), name, origins)
    return Document(name=name, data=data, origins=origins)


def set_value(document: Document, assignment: str) -> Document:
    """The document with one `--set KEY=VALUE` applied.

    KEY is a dotted path; a list's element is named by its number or its `name`. VALUE is YAML. Raises UsageError
    when KEY leads nowhere; a last part that is new is left for the model to judge.
    """
    option = f"--set {assignment}"
    key, separator, text = assignment.partition("=")
    if not separator or not key.strip():
        raise UsageError("expected KEY=VALUE", where=option, next_step="for example --set repeats=3")
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise UsageError("the value cannot be read as YAML", where=option, evidence=str(error)) from error
    return assign(document, key.strip(), value, origin=option)


def assign(document: Document, key: str, value: Any, *, origin: str) -> Document:
    """The document with a value at a dotted path. Raises UsageError at `origin` when the path leads nowhere."""
    data = _deep_copy(document.data)
    parts = key.split(".")
    holder: Any = data
    path: list[str | int] = []
    for part in parts[:-1]:
        index = _index(holder, part, origin)
        if isinstance(holder, dict) and index not in holder:
            holder[index] = {}
        holder = holder[index]
        path.append(index)
    last = _index(holder, parts[-1], origin)
    holder[last] = value
    origins = {**document.origins, (*path, last): origin}
    return Document(name=document.name, data=data, origins=origins)


def _index(holder: Any, part: str, origin: str) -> str | int:
    if isinstance(holder, dict):
        return part
    if isinstance(holder, list):
        if part.isdigit() and int(part) < len(holder):
            return int(part)
        for number, element in enumerate(holder):
            if isinstance(element, dict) and part in {element.get("name"), element.get("kind")}:
                return number
        names = [str(element.get("name", element.get("kind"))) for element in holder if isinstance(element, dict)]
        raise UsageError(
            f"no element is called {part!r}",
            where=origin,
            evidence=f"there are: 0..{len(holder) - 1}, {', '.join(names)}",
        )
    raise UsageError(f"{part!r} leads into a value that has no parts", where=origin)


def _plain(node: Any, path: Path, name: str, origins: dict[Path, str]) -> Any:
    if isinstance(node, CommentedMap):
        origins.setdefault(path, f"{name}:{node.lc.line + 1}")
        result = {}
        for key, value in node.items():
            origins[(*path, str(key))] = f"{name}:{node.lc.key(key)[0] + 1}"
            result[str(key)] = _plain(value, (*path, str(key)), name, origins)
        return result
    if isinstance(node, CommentedSeq):
        for index in range(len(node)):
            origins[(*path, index)] = f"{name}:{node.lc.item(index)[0] + 1}"
        return [_plain(value, (*path, index), name, origins) for index, value in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, int):
        return int(node)
    if isinstance(node, float):
        return float(node)
    if isinstance(node, str):
        return str(node)
    raise UsageError(
        f"a value of type {type(node).__name__} is not allowed here", where=origins.get(path, name),
        next_step="use plain strings, numbers, lists and mappings, without YAML tags",
    )  # fmt: skip


def _deep_copy(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _deep_copy(value) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, str):
        return [_deep_copy(value) for value in node]
    return node
