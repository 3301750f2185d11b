"""A YAML document with the line of every key, for error messages."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from volbench.core.base.nearest import nearest_match
from volbench.core.base.parse import optional_whole
from volbench.core.records.base import WrittenFloat
from volbench.errors import UsageError

Path = tuple[str | int, ...]

TEXT_BYTES_MAX = 1 << 20
DEPTH_MAX = 64
"""Bundled files are nested 5 deep. Each level costs frames of Python's stack, here and in readers of the data."""
NODES_MAX = 100_000
"""With every alias expanded. The largest bundled file has 456."""
CHARACTERS_MAX = 4 << 20
"""Of all scalars, with every alias expanded."""
_INTEGER_MAX = (1 << 63) - 1
_SCALARS = ("str", "int", "float", "bool", "null")


@dataclass(frozen=True, kw_only=True)
class SuiteDocument:
    """Plain data, the file's name, and for each path the line (from 1) or the option that set it."""

    name: str
    data: dict[str, Any]
    origins: Mapping[Path, str] = field(default_factory=dict)

    def origin(self, path: Path) -> str:
        """Return `file:line` of the path or of its nearest parent; `--set key=value` for the value of an option."""
        for length in range(len(path), -1, -1):
            origin = self.origins.get(path[:length])
            if origin is not None:
                return origin
        return self.name


def parse_document(text: str, *, name: str) -> SuiteDocument:
    """Parse YAML without constructing objects. This is the only reader of YAML: suites, policies, validation plans,
    volume profiles and prices come through here, and so do the values of `--set`.

    Raises UsageError with file and line for broken YAML, duplicate keys, tags, merge keys, a document that is no
    mapping, and for one that is too long, too deep, or too large once its aliases are expanded.
    """
    node = _compose(text, name)
    if not isinstance(node, MappingNode):
        raise UsageError("the file has to be a mapping of keys to values", where=f"{name}:1")
    builder = _Builder(name)
    data = builder.build(node, ())
    return SuiteDocument(name=name, data=data, origins=builder.origins)


def set_value(document: SuiteDocument, assignment: str) -> SuiteDocument:
    """Return the document with one `--set KEY=VALUE` applied.

    KEY is a dotted path; a list's element is named by its number or its `name`. VALUE is YAML; `null` removes an
    element of a list. Raises UsageError if KEY does not exist; the model checks a new last component.
    """
    option = f"--set {assignment}"
    key, separator, text = assignment.partition("=")
    if not separator or not key.strip():
        raise UsageError("expected KEY=VALUE", where=option, next_step="for example --set repeats=3")
    node = _compose(text, option)
    value = _Builder(option).build(node, ()) if node is not None else None
    return assign(document, key.strip(), value, origin=option)


def assign(document: SuiteDocument, key: str, value: Any, *, origin: str) -> SuiteDocument:
    """Return the document with a value at a dotted path, or without a list's element where the value is None.

    Raises UsageError at `origin` for an unknown path.
    """
    data = _deep_copy(document.data)
    keys = key.split(".")
    if len(keys) > DEPTH_MAX:
        raise UsageError(f"the key is nested deeper than {DEPTH_MAX} levels", where=origin)
    holder: Any = data
    path: list[str | int] = []
    for key_part in keys[:-1]:
        index = _index(holder, key_part, origin)
        if isinstance(holder, dict) and index not in holder:
            holder[index] = {}
        holder = holder[index]
        path.append(index)
    last = _index(holder, keys[-1], origin)
    if value is None and isinstance(last, int):
        del holder[last]
        origins = _origins_without(document.origins, tuple(path), last)
    else:
        holder[last] = value
        origins = {**document.origins, (*path, last): origin}
    return SuiteDocument(name=document.name, data=data, origins=origins)


def _origins_without(origins: Mapping[Path, str], holder: Path, number: int) -> dict[Path, str]:
    """Return the origins without those of one element of a list; the elements after it move up."""
    depth = len(holder)
    result = {}
    for path, origin in origins.items():
        index = path[depth] if len(path) > depth and path[:depth] == holder else None
        if not isinstance(index, int) or index < number:
            result[path] = origin
        elif index > number:
            result[(*holder, index - 1, *path[depth + 1 :])] = origin
    return result


def _index(holder: Any, key: str, origin: str) -> str | int:
    if isinstance(holder, dict):
        return key
    if isinstance(holder, list):
        index = optional_whole(key)
        if index is not None and index < len(holder):
            return index
        for number, element in enumerate(holder):
            if isinstance(element, dict) and key in {element.get("name"), element.get("kind")}:
                return number
        names = [str(element.get("name", element.get("kind"))) for element in holder if isinstance(element, dict)]
        raise UsageError(
            f"no element is called {key!r}",
            where=origin,
            evidence=f"there are: 0..{len(holder) - 1}, {', '.join(names)}",
            next_step=f"perhaps you meant {match!r}" if (match := nearest_match(key, names)) else "",
        )
    raise UsageError(f"{key!r} leads into a value that has no parts", where=origin)


def _compose(text: str, name: str) -> Node | None:
    """Return the tree of the text's only document; None for an empty one. Raises UsageError."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise UsageError(f"YAML is read up to {TEXT_BYTES_MAX} bytes at most", where=name)
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = DEPTH_MAX
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an anchor that is defined again, which YAML allows
            tree: Node | None = yaml.compose(text)
            return tree
    except MaxDepthExceededError as error:
        raise _too_deep(_at(name, error.problem_mark)) from error
    except MarkedYAMLError as error:
        problem = re.sub(r"\s+", " ", error.problem or "broken YAML")
        raise UsageError(f"the YAML cannot be read: {problem}", where=_at(name, error.problem_mark)) from error
    except (YAMLError, ValueError) as error:  # ValueError: an escape that is no character
        raise UsageError("the YAML cannot be read", where=name, evidence=str(error)) from error


class _Builder:
    """Plain data from a tree, with the line of every key; counts what aliases expand to.

    Args:
        name: the file, or the option that has the text.
    """

    def __init__(self, name: str) -> None:
        self.origins: dict[Path, str] = {}
        self._name = name
        self._nodes = 0
        self._characters = 0
        # Only its methods for scalars are used, which need no tree.
        self._scalars = YAML(typ="safe", pure=True).constructor

    def build(self, node: Node, path: Path) -> Any:
        """Return the data of a node. Raises UsageError."""
        self._count(node, path)
        self.origins.setdefault(path, self._where(node))
        if isinstance(node, MappingNode) and _tag(node) == "map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and _tag(node) == "seq":
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        raise self._wrong_type(node)

    def _count(self, node: Node, path: Path) -> None:
        self._nodes += 1
        self._characters += len(node.value) if isinstance(node, ScalarNode) else 0
        if self._nodes > NODES_MAX or self._characters > CHARACTERS_MAX:
            raise UsageError(
                f"more than {NODES_MAX} values or {CHARACTERS_MAX} characters, with each alias expanded",
                where=self._where(node),
                next_step="leave out aliases (*name) of aliases, or split the file",
            )
        if len(path) > DEPTH_MAX:
            raise _too_deep(self._where(node))

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise UsageError("a key has to be a plain word", where=self._where(key_node))
            if _tag(key_node) == "merge":
                raise UsageError(
                    "merge keys (<<) are not supported", where=self._where(key_node), next_step="write the keys out"
                )
            self._count(key_node, path)
            key = str(self._scalar(key_node))
            if key in result:
                raise UsageError(f"duplicate key {key!r}", where=self._where(key_node))
            self.origins[(*path, key)] = self._where(key_node)
            result[key] = self.build(value_node, (*path, key))
        return result

    def _scalar(self, node: ScalarNode) -> Any:
        kind = _tag(node)
        if kind not in _SCALARS:
            raise self._wrong_type(node)
        try:
            value = getattr(self._scalars, f"construct_yaml_{kind}")(node)
            node.value.encode()  # half of a surrogate pair cannot be written to any file of a run
        except (ValueError, KeyError, IndexError) as error:  # a tag that its text does not fit; an endless number
            raise UsageError(f"not a value of type {kind}: {error}", where=self._where(node)) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{node.value!r} is not a finite number", where=self._where(node))
        if isinstance(value, float):
            return WrittenFloat(value, text=node.value)
        if isinstance(value, int) and not -_INTEGER_MAX <= value <= _INTEGER_MAX:
            raise UsageError("the number has more than 64 bits", where=self._where(node))
        return value

    def _wrong_type(self, node: Node) -> UsageError:
        return UsageError(
            f"a value of type {_tag(node)} is not allowed here",
            where=self._where(node),
            next_step="use plain strings, numbers, lists and mappings, without YAML tags; quote a date",
        )

    def _where(self, node: Node) -> str:
        return _at(self._name, node.start_mark)


def _tag(node: Node) -> str:
    """Return the plain word of YAML's own types, such as `str`."""
    return (node.tag or "").removeprefix("tag:yaml.org,2002:")


def _at(name: str, mark: Any) -> str:
    """Return `file:line`; an option has no lines."""
    return f"{name}:{mark.line + 1}" if mark is not None and not name.startswith("--set") else name


def _too_deep(where: str) -> UsageError:
    return UsageError(
        f"the YAML is nested deeper than {DEPTH_MAX} levels",
        where=where,
        next_step="no key of volbench's files is nested that deep; look for a bracket that is not closed",
    )


def _deep_copy(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _deep_copy(value) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, str):
        return [_deep_copy(value) for value in node]
    return node
