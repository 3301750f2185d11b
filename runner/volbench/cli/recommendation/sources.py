"""What `volbench recommend` reads: runs, observations, recordings, and directories with one of these per server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import UsageError
from volbench.observe.model import OBSERVATION_FILE
from volbench.results.credits.history import Defaults
from volbench.results.credits.sources import read_history
from volbench.results.recommend.evidence import Evidence
from volbench.results.recommend.recorded_load import RecordedLoad
from volbench.results.recommend.run_evidence import evidence_of_run
from volbench.results.recorded.cloudwatch_live import SCHEME
from volbench.results.recorded.timelines import Choice
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RUN_FILE, RunDirectory
from volbench.results.store.run_names import run_path

SERVERS_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class NamedSource:
    """One source with its name in the answer."""

    name: str
    source: Path


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How sources are read: which part of a recording, which loads of a run."""

    choice: Choice
    interval_s: float | None
    steps: tuple[str, ...]
    volume: str


def servers_of(sources: Sequence[str], *, is_fleet: bool) -> tuple[NamedSource, ...]:
    """Return the servers that are asked about. Raises UsageError for none, too many, or two of one name."""
    paths = [Path(source) for source in sources]
    if is_fleet:
        paths = [child for path in paths for child in _children(path)]
    names = [_name(path) for path in paths]
    servers = tuple(NamedSource(name=name, source=path) for name, path in zip(names, paths, strict=True))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            "two sources have one name", where=", ".join(str(path) for path in paths), evidence=twice[0]
        )
    if len(servers) > SERVERS_MAX:
        raise UsageError(f"at most {SERVERS_MAX} servers at a time", evidence=f"given: {len(servers)}")
    return servers


def _children(path: Path) -> list[Path]:
    try:
        children = sorted(child for child in path.iterdir() if not child.name.startswith("."))
    except OSError as error:
        raise UsageError(
            "a fleet is a directory with a file or a directory for each server",
            where=str(path),
            evidence=str(error),
        ) from error
    if not children:
        raise UsageError("the directory is empty", where=str(path))
    return children


def _name(path: Path) -> str:
    return str(path) if str(path).startswith(SCHEME) else path.stem if path.is_file() else path.name


def evidence_of(server: NamedSource, reading: ReadingOptions) -> Evidence:
    """Return what a source tells. Raises UsageError for what is none of them, Undecided for what tells nothing."""
    live = str(server.source).startswith(SCHEME)
    path = server.source if live else run_path(server.source)
    if not live and (path / RUN_FILE).is_file():
        return evidence_of_run(load_run(RunDirectory.open(path)), steps=reading.steps, volume=reading.volume)
    if reading.steps or reading.volume:
        raise UsageError("--step and --from-volume are about a run", where=str(server.source))
    if not live and (path / OBSERVATION_FILE).is_file():
        from volbench.observe.load import recorded_load

        return recorded_load(path)
    if not live and not path.exists():
        raise UsageError(
            "there is no such run, observation or recording",
            where=str(server.source),
            next_step="give a run, an observation, a recording, or cloudwatch:vol-0123?hours=168",
        )
    history = read_history(path, Defaults(read_share=0.5), choice=reading.choice, interval_s=reading.interval_s)
    return RecordedLoad(name=server.name, history=history, source=str(server.source))
