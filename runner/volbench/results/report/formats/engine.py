"""The template engine of pages. Compiled templates are kept where Python keeps compiled modules."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from volbench.core.base.text import escape_controls

_DIRECTORY = "page"


def page_engine(package: str, **options: Any) -> Environment:
    """Return the engine that reads the templates of a package's directory `page`; an undefined name is an error."""
    return Environment(
        loader=PackageLoader(package, _DIRECTORY),
        bytecode_cache=_CompiledTemplates(package, options),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        **options,
    )


def visible(value: Any) -> Any:
    """Return a value of a template; control characters of a text as escapes. Markup of ours stays."""
    return escape_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class _CompiledTemplates(FileSystemBytecodeCache):
    """Keeps compiled templates, unless Python may keep no modules: to compile them is a fifth of a small report.

    A template is compiled anew when its text, or Jinja's or Python's version changes. A filter's code is no part of
    that, so that no template may have a constant that a filter changes.
    """

    def __init__(self, package: str, options: Mapping[str, Any]) -> None:
        spec = find_spec(package)
        locations = spec.submodule_search_locations if spec is not None else None
        if not locations:
            raise ModuleNotFoundError(package)
        compiled = Path(cache_from_source(str(Path(next(iter(locations)), "template.py"))))  # not in `page`
        of_options = sha256(repr(sorted(options.items())).encode()).hexdigest()[:8]
        super().__init__(str(compiled.parent), f"%s.{sys.implementation.cache_tag}-{of_options}.jinja")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a compiled template that was kept; where that is impossible, it is compiled."""
        with suppress(OSError, EOFError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template; where that is impossible, each process compiles its own."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
