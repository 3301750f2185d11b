"""The command line of a Job: a command of volbench, checked here, with the arguments that its pod gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volbench.cli import console, main
from volbench.core.base.nearest import suggestion
from volbench.core.records.cell import AttachSpec
from volbench.core.records.tls import TLS_KEYS
from volbench.core.records.validation.plan import ServerPlace, ValidationPlan
from volbench.core.suite.load import load_suite
from volbench.core.suite.validation import load_validation_plan
from volbench.errors import UsageError
from volbench.machine.placement.attach import parse_dsn
from volbench.machine.placement.kubernetes.database_job import JOB_RESULTS, POD_RESULTS, plain
from volbench.machine.placement.kubernetes.runner import RUN_FILES, SUITE_FILE
from volbench.measure.session.carried import files_of_run, read_files, settings_in_pod
from volbench.measure.session.planner import make_plan, until_settings
from volbench.measure.session.servers import TargetRequest
from volbench.observe.triggers import parse_trigger
from volbench.results.store.bucket import Bucket

if TYPE_CHECKING:
    from typer._click import Command

PLAN_FILE = "plan.yaml"
_FILE_KEYS = ("option_file", *TLS_KEYS[1:])
"""Of a server: files of its account."""


@dataclass(frozen=True, kw_only=True)
class JobCommand:
    """What a Job's pod runs.

    Args:
        arguments: after `volbench`, as a manifest has them.
        directory: of results, made before.
        servers: that it connects to.
        paths: of files that it reads, as its pod has them.
        own: contents of files of this machine that its pod gets, by their absolute paths.
        texts: name -> text of files in /volbench/run.
    """

    arguments: tuple[str, ...]
    directory: str
    servers: tuple[AttachSpec | ServerPlace, ...]
    paths: tuple[str, ...] = ()
    own: Mapping[str, bytes] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        """Return the servers' hosts; of one that its option file names none is known."""
        return [server.host for server in self.servers if server.host or server.socket or not server.option_file]

    def files(self) -> Iterator[str]:
        """Yield the files that the pod must have mounted: of accounts, and further ones."""
        for server in self.servers:
            yield from filter(None, (getattr(server, key) for key in _FILE_KEYS))
        yield from self.paths


def job_command(name: str, arguments: Sequence[str]) -> JobCommand:
    """Return what a Job runs for a command line. Raise UsageError, also for an option that a Job cannot have."""
    kind = _KINDS.get(name)
    if kind is None:
        raise UsageError(
            f"a Job does not run {name!r}",
            where="volbench k8s job",
            evidence=f"it runs {', '.join(_KINDS)}",
            next_step=suggestion(name, _KINDS),
        )
    command = main.command_of(name)
    return kind.make(command, _parsed(command, name, arguments, kind.options))


def _parsed(command: Command, name: str, arguments: Sequence[str], allowed: Iterable[str]) -> dict[str, Any]:
    """Return the parameters on a command line by name, as the command itself takes them. Raise UsageError."""
    context = command.make_context(f"volbench k8s job {name}", list(arguments))
    values = {
        key: value
        for key, value in context.params.items()
        if (source := context.get_parameter_source(key)) is not None and source.name == "COMMANDLINE"
    }
    spelling = {parameter.name: parameter.opts[0] for parameter in command.params}
    for text in (*(spelling[key] for key in values if key not in allowed), *context.args):
        raise UsageError(
            f"{text} is nothing for a Job",
            where=f"volbench k8s job {name}",
            evidence=f"a Job takes {', '.join(spelling[key] for key in allowed)}",
            next_step="leave it out; results are on the claim, and `volbench k8s fetch` brings them",
        )
    return values


def _spelled(command: Command, values: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    """Yield the options of a command line as one word each."""
    for parameter in command.params:
        if parameter.name not in keys or parameter.name not in values:
            continue
        value = values[parameter.name]
        if isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
            continue
        for item in value if isinstance(value, list | tuple) else (value,):
            yield plain(f"{parameter.opts[0]}={item}")


def _server(values: Mapping[str, Any]) -> AttachSpec:
    if not values.get("server"):
        raise UsageError(
            "a server is needed", where="volbench k8s job", next_step="--server mysql://USER@SERVICE:3306"
        )
    return parse_dsn(values["server"], option_file=values.get("option_file", ""))


def _observe(command: Command, values: Mapping[str, Any]) -> JobCommand:
    if "length" not in values:
        raise UsageError(
            "an observation as a Job needs its length: nobody is there to end it",
            where="volbench k8s job observe",
            next_step="add --for 30m",
        )
    for text in values.get("on", ()):
        parse_trigger(text)
    arguments = ("observe", *_spelled(command, values, values), "--volume=none", f"--out={POD_RESULTS}")
    return JobCommand(arguments=arguments, directory=JOB_RESULTS, servers=(_server(values),))


def _capture(command: Command, values: Mapping[str, Any]) -> JobCommand:
    file = Path(values["out"])
    if file.name != str(file):
        raise UsageError(
            "the capture of a Job is a file's name, without a directory",
            where=f"OUT {file}",
            next_step=f"{file.name}; `volbench k8s fetch JOB --out DIRECTORY` says where it goes",
        )
    options = _spelled(command, values, set(values) - {"out"})
    arguments = ("capture", f"{POD_RESULTS}/{plain(file.name)}", *options)
    return JobCommand(arguments=arguments, directory=POD_RESULTS, servers=(_server(values),))


def _validate(command: Command, values: Mapping[str, Any]) -> JobCommand:
    del command
    loaded = load_validation_plan(Path(values["plan"]))
    paths = list(_files_of_plan(loaded.plan))
    own = [path for path in paths if not {"/", ".."} & set(Path(path).parts) and Path(path).is_file()]
    return JobCommand(
        arguments=("validate", f"{RUN_FILES}/{PLAN_FILE}", f"--out={POD_RESULTS}"),
        directory=POD_RESULTS,
        servers=(loaded.plan.source, loaded.plan.candidate),
        paths=tuple(path for path in paths if path not in own),
        own=read_files(str(Path(path).absolute()) for path in own),
        texts={PLAN_FILE: loaded.text},
    )


def _files_of_plan(plan: ValidationPlan) -> Iterator[str]:
    """Yield the files and directories that a validation reads where it runs."""
    paths: list[str] = list(plan.runs)
    if plan.queries is not None:
        paths += [plan.queries.slow_log, plan.queries.capture]
    if plan.replay is not None:
        paths.append(plan.replay.slow_log)
    if plan.burst is not None:
        paths += [plan.burst.data_dir, plan.burst.series]
    if plan.growth is not None:
        paths += [plan.growth.data_dir, *plan.growth.captures]
    yield from filter(None, paths)


def _run(command: Command, values: Mapping[str, Any]) -> JobCommand:
    if not values.get("server"):
        raise UsageError(
            "a suite as a Job measures a server that runs already, and none is named",
            where="volbench k8s job run",
            next_step="add --server mysql://USER@SERVICE:3306/SCHEMA; `volbench k8s submit` measures volumes",
        )
    if "results_to" in values:
        Bucket(values["results_to"])
    files = values.get("option_file", ())
    request = TargetRequest(target="attach", servers=values["server"], option_files=files)
    settings = until_settings(values.get("until"), values.get("settings", ()))
    planned = make_plan(
        Path(values["suite"]), (), request, settings=settings, command=console.typed_command(), say=console.say
    )
    paths = settings_in_pod(load_suite(Path(values["suite"]), settings=settings)[0])
    arguments = (
        *("k8s", "in-cluster", f"{RUN_FILES}/{SUITE_FILE}"),
        *(plain(f"--set={setting}") for setting in (*settings, *paths)),
        *_spelled(command, values, ("server", "option_file", "results_to")),
    )
    return JobCommand(
        arguments=arguments,
        directory=JOB_RESULTS,
        servers=tuple(planned.attached.values()),
        own=files_of_run(planned.run),
        texts={SUITE_FILE: planned.run.suite_source},
    )


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A command that a Job may run: its parameters that make sense there, and what its pod gets for them."""

    options: tuple[str, ...]
    make: Callable[[Command, Mapping[str, Any]], JobCommand]


_KINDS = {
    "observe": _Kind(
        options=(
            *("server", "option_file", "length", "on", "keep", "max_size", "interval"),
            *("allow_privileged", "quiet"),
        ),
        make=_observe,
    ),
    "capture": _Kind(
        options=("out", "server", "option_file", "seconds", "mask", "allow_privileged"), make=_capture
    ),
    "validate": _Kind(options=("plan",), make=_validate),
    "run": _Kind(options=("suite", "server", "option_file", "settings", "until", "results_to"), make=_run),
}
