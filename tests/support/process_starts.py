"""Finds, in Python's source, every way to start a process, and to find a program in the working directory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

STARTS = (
    "subprocess.run",
    "subprocess.Popen",
    "subprocess.call",
    "subprocess.check_*",
    "subprocess.get*output",
    "os.system",
    "os.popen",
    "os.exec*",
    "os.spawn*",
    "os.posix_spawn*",
    "os.fork*",
    "os.startfile",
    "posix.*",
    "_posixsubprocess.*",
    "pty.*",
    "shutil.which",
    "multiprocessing.*",
    "concurrent.futures.ProcessPoolExecutor",
    "concurrent.futures.process.ProcessPoolExecutor",
    "asyncio.create_subprocess_*",
    "asyncio.subprocess.*",
    "webbrowser.*",
    "pydoc.pager",
    "pydoc.*pager",
    "click.edit",
    "click.launch",
    "click.echo_via_pager",
    "typer.edit",
    "typer.launch",
    "typer.echo_via_pager",
    "pexpect.*",
    "sh.*",
    "invoke.*",
    "plumbum.*",
)
"""Full names, or patterns of them."""
HARMLESS = (
    "platform.system",
    "concurrent.futures.process.BrokenProcessPool",
    "multiprocessing.parent_process",
    "multiprocessing.synchronize.*",
)
MODULES = frozenset(pattern.partition(".")[0] for pattern in STARTS)
FOREIGN = frozenset(
    {
        "system",
        "popen",
        "fork",
        "vfork",
        "clone",
        "posix_spawn",
        "posix_spawnp",
        "execl",
        "execle",
        "execlp",
        "execv",
        "execve",
        "execvp",
        "execvpe",
        "fexecve",
        "wordexp",
        "subprocess_exec",
        "subprocess_shell",
        "pager",
    }
)
"""Attributes of any object: of ctypes' libraries, of an event loop, of rich's console."""
_TERMS = frozenset({"system", "clone", "pager"})
"""Keys of many dictionaries."""
_CLASSES = frozenset({"Popen", "ProcessPoolExecutor"})
KEYWORDS = frozenset({"shell", "preexec_fn"})


def process_starts(source: str) -> list[tuple[int, str]]:
    """Return line and name of each start of a process, in order; types of annotations start none."""
    tree = ast.parse(source)
    imported = dict(_imported_names(tree))
    types = {id(node) for annotation in _annotations(tree) for node in ast.walk(annotation)}
    nodes: list[Any] = [node for node in ast.walk(tree) if id(node) not in types]
    starts = [(node, _start_of(node, imported)) for node in nodes]
    starts += [(node, _foreign_start(node, imported)) for parent in nodes for node in _used_whole(parent)]
    return sorted({(node.lineno, name) for node, name in starts if name is not None})


def _start_of(node: ast.AST, imported: dict[str, str]) -> str | None:
    if isinstance(node, ast.ImportFrom | ast.Import):
        return next(iter(_starts_imported_by(node)), None)
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        name = _full_name(node, imported)
        return name if name is not None and _starts(name) else None
    if isinstance(node, ast.Call):
        return _start_of_call(node, imported)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _start_by_key(node.value, str(node.slice.value), imported)
    return None


def _start_by_key(node: ast.expr, key: str, imported: dict[str, str]) -> str | None:
    """A module, or its function, by a text: sys.modules["os"], os.__dict__["system"], a library's ["system"]."""
    name = _full_name(node, imported) or ""
    if name == "sys.modules":
        return f"{name}[{key!r}]" if key.partition(".")[0] in MODULES else None
    module, _, attribute = name.rpartition(".")
    if attribute == "__dict__" and module in MODULES:
        return f"{name}[{key!r}]"
    return f"*[{key!r}]" if key in FOREIGN - _TERMS else None


def _used_whole(node: ast.AST) -> list[Any]:
    """What is called, handed over or given a name: not what is only calculated with, such as `times.system`."""
    if isinstance(node, ast.Call):
        return [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
    return [node.value] if isinstance(node, ast.Assign | ast.NamedExpr | ast.Return) else []


def _foreign_start(node: ast.AST, imported: dict[str, str]) -> str | None:
    if not isinstance(node, ast.Attribute) or node.attr not in FOREIGN:
        return None
    name = _full_name(node, imported) or ""
    return None if _starts(name) or name in HARMLESS else f"*.{node.attr}"


def _start_of_call(call: ast.Call, imported: dict[str, str]) -> str | None:
    """A keyword that starts a shell, or a module's function by a text: getattr(os, "sys" + "tem")."""
    for keyword in call.keywords:
        if keyword.arg in KEYWORDS and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
            return f"{keyword.arg}="
    name = _full_name(call.func, imported) or ""
    if not call.args:
        return None
    first = call.args[0]
    if name in {"getattr", "vars", "operator.attrgetter"} and (_full_name(first, imported) or "") in MODULES:
        return f"{name}({_full_name(first, imported)}, ...)"
    if name in {"__import__", "importlib.import_module", "import_module"} and isinstance(first, ast.Constant):
        module = str(first.value)
        return f"{name}({module!r})" if module.partition(".")[0] in MODULES else None
    return None


def _starts(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in STARTS) and not any(
        fnmatchcase(name, pattern) for pattern in HARMLESS
    )


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _starts_imported_by(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The starts that an import names, and all of a module; a class is a type too: its use is looked at instead."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if "." in alias.name and _starts(alias.name)]
    names = [f"{node.module}.{alias.name}" for alias in node.names]
    if names[0].endswith(".*"):
        return names if (node.module or "").partition(".")[0] in MODULES else []
    return [name for name in names if _starts(name) and name.rpartition(".")[2] not in _CLASSES]


def _full_name(node: ast.AST, imported: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        inner = _full_name(node.value, imported)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def _annotations(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
