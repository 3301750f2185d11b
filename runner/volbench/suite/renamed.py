"""Older names of keys in suites, policies and plans: read as today's keys, with a warning for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from volbench.records.renamed import older_names
from volbench.suite.document import Document, Path

ANY = "*"
"""In a pattern: the number of a list's element, or a free key of a mapping."""
_DOTTED = (("scales", ANY, ANY), ("sweep", "factors", ANY))
"""Keys that are paths to other keys, written with dots."""

Warn = Callable[[str], None]


def ignore(warning: str) -> None:
    """Drop a warning, where nobody reads it."""
    del warning


def renamed_keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the pattern of the path to each older key, of the model and of those in it, with today's key."""
    for old, new in older_names(model).items():
        yield (*path, old), new
    for name, field in model.model_fields.items():
        for child, inner in _models_in(field.annotation, ()):
            yield from renamed_keys(child, (*path, field.alias or name, *inner))


def _models_in(annotation: Any, path: tuple[str, ...]) -> Iterator[tuple[type[BaseModel], tuple[str, ...]]]:
    """Yield the models in a type, with the path to them: `ANY` for each container around them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, path
    inner = (*path, ANY) if get_origin(annotation) in {tuple, list, dict} else path
    for argument in get_args(annotation):
        yield from _models_in(argument, inner)


class CurrentKeys:
    """Translates older keys of a model's documents.

    Args:
        model: of the file.
        warn: is called with the place of each older key and today's name.
    """

    def __init__(self, model: type[BaseModel], warn: Warn = ignore) -> None:
        self._renamed = dict(renamed_keys(model))
        self._warn = warn

    def document(self, document: Document) -> Document:
        """Return the document with today's keys."""
        data = self._translated(document, document.data, (), ())
        return replace(document, data=data, origins={self.path(path): at for path, at in document.origins.items()})

    def assignment(self, assignment: str) -> str:
        """Return the `KEY=VALUE` of an option with today's key."""
        old, separator, value = assignment.partition("=")
        key = self.dotted(old.strip())
        if key != old.strip():
            self._warn(_warning(f"--set {assignment}", old.strip(), key))
        return f"{key}{separator}{value}"

    def dotted(self, key: str) -> str:
        """Return today's path to a key, written with dots."""
        return ".".join(map(str, self.path(tuple(key.split(".")))))

    def path(self, path: Path) -> Path:
        """Return today's path to a key."""
        current: Path = ()
        for component in path:
            current = (*current, self._key((*current, component)))
        return current

    def _key(self, path: Path) -> str | int:
        """Return today's name of the last key; the keys before it have theirs already."""
        if isinstance(path[-1], str) and any(_fits(path, pattern) for pattern in _DOTTED):
            return self.dotted(path[-1])
        return next((new for pattern, new in self._renamed.items() if _fits(path, pattern)), path[-1])

    def _translated(self, document: Document, node: Any, path: Path, old_path: Path) -> Any:
        if isinstance(node, list):
            return [
                self._translated(document, value, (*path, index), (*old_path, index))
                for index, value in enumerate(node)
            ]
        if not isinstance(node, dict):
            return node
        translated = {}
        for old, value in node.items():
            key = self._key((*path, old))
            if key != old and key in node:  # both: the model reports the older one as unknown
                key = old
            elif key != old:
                where = document.origin((*old_path, old))
                self._warn(_warning(where, ".".join(map(str, (*old_path, old))), str(key)))
            translated[key] = self._translated(document, value, (*path, key), (*old_path, old))
        return translated


def _fits(path: Path, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(
        name in {ANY, component} for component, name in zip(path, pattern, strict=True)
    )


def _warning(where: str, old: str, new: str) -> str:
    return f"{where}: {old}: this key is called {new!r} now; write that, a later version will refuse the old name"
