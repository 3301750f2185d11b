"""Files of recordings as they were read: each with its format and its recordings, or why there are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from volbench.errors import UsageError
from volbench.results.recorded.contents import ContainedFile, contents
from volbench.results.recorded.formats import ACCEPTED, read_text
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.pt_stalk import READ, Collection, kind_of, parse_collection
from volbench.results.recorded.slow_log import COMMANDS
from volbench.results.recorded.unread import unread

_EMPTY = "nothing in it: no sample of a device, a CPU, a server or a client"


@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """One file, or one collection of pt-stalk: its format and its recordings, one for each host.

    `why_not` says why none of it is used; `of_collection` names the collection that a file was read with;
    `collection` is what pt-stalk says of the server.
    """

    name: str
    kind: str = ""
    recordings: tuple[Recorded, ...] = ()
    why_not: str = ""
    of_collection: str = ""
    collection: Collection | None = None
    slow_log: bool = False


def read_files(sources: Sequence[Path], interval_s: float | None = None) -> tuple[RecordedFile, ...]:
    """Return all files below `sources`, each as it was read. One that cannot be read does not hinder the others.

    Args:
        sources: files and directories.
        interval_s: of samples that have no times; None: not known.

    Raises UsageError for a source that is not there.
    """
    contents_read = [content for source in sources for content in contents(source)]
    collections, single_files = _collected(contents_read)
    files = [file for prefix, members in collections.items() for file in _collection(prefix, members)]
    files += [_read(content, interval_s) for content in single_files]
    return tuple(sorted(files, key=lambda file: file.name))


def unreadable(source: Path, files: Sequence[RecordedFile], message: str, next_step: str) -> UsageError:
    """Return the error for a source of which no file can be used.

    Args:
        source: as named.
        files: as they were read.
        message, next_step: where they are several or none; of a single file its own reason is told.
    """
    reasons = [(file.name, _with_kind(file)) for file in files if file.why_not]
    if len(reasons) == 1 and not reasons[0][1].startswith(_UNKNOWN):
        name, reason = reasons[0]
        where = source / name if source.is_dir() else source
        return UsageError(reason, where=str(where), next_step="" if " give " in f" {reason}" else next_step)
    listed = [f"{name}: {reason}" for name, reason in reasons[:_LISTED_MAX]]
    more = [f"and {len(reasons) - _LISTED_MAX} more"] if len(reasons) > _LISTED_MAX else []
    return UsageError(message, where=str(source), evidence="; ".join([*listed, *more]), next_step=next_step)


def _with_kind(file: RecordedFile) -> str:
    """Why a file is not used, with what it was recognised as: an error has no column for that."""
    return f"this is {file.kind}, {file.why_not}" if file.why_not.startswith(_NOT_READ) else file.why_not


_LISTED_MAX = 10
_NOT_READ = "not read: "
_UNKNOWN = "its format is not known"


def _collected(
    contents_read: Iterable[ContainedFile],
) -> tuple[Mapping[str, Mapping[str, ContainedFile]], list[ContainedFile]]:
    """Return pt-stalk's collections, by prefix, their files by kind, and the files that belong to none."""
    collections: dict[str, dict[str, ContainedFile]] = {}
    single_files = []
    for content in contents_read:
        path = PurePosixPath(content.name)
        named = kind_of(path.name)
        if named is None:
            single_files.append(content)
        else:
            prefix = named[0] if str(path.parent) == "." else f"{path.parent}/{named[0]}"
            collections.setdefault(prefix, {})[named[1]] = content
    return collections, single_files


def _collection(prefix: str, members: Mapping[str, ContainedFile]) -> Iterator[RecordedFile]:
    """Yield a collection as one recording, and each of its files."""
    texts = {kind: content.text for kind, content in members.items() if kind in READ and not content.problem}
    if "diskstats" not in texts:
        for content in members.values():
            yield RecordedFile(name=content.name, kind="pt-stalk", why_not="its collection has no -diskstats")
        return
    name = PurePosixPath(prefix).name
    try:
        collection = parse_collection(name, texts)
    except ValueError as error:
        yield RecordedFile(
            name=prefix, kind="pt-stalk", why_not=f"looks like pt-stalk, but cannot be read: {error}"
        )
        return
    yield RecordedFile(
        name=prefix,
        kind="pt-stalk",
        recordings=(collection.recorded,) if collection.recorded.series else (),
        why_not="" if collection.recorded.series else _EMPTY,
        collection=collection,
    )
    for kind, content in members.items():
        why_not = content.problem or ("" if kind in texts else "what it says is in the collection's other files")
        yield RecordedFile(name=content.name, kind="pt-stalk", why_not=why_not, of_collection=prefix)


def _read(content: ContainedFile, interval_s: float | None) -> RecordedFile:
    if content.slow_log:
        return RecordedFile(
            name=content.name,
            kind="slow log",
            why_not=f"a slow query log is no recording of a volume or a host: {COMMANDS}",
            slow_log=True,
        )
    if content.problem:
        return RecordedFile(name=content.name, why_not=content.problem)
    try:
        read = read_text(content.text, interval_s)
    except ValueError as error:
        return RecordedFile(name=content.name, why_not=str(error))
    if read is None:
        reason = unread(content.text)
        if reason is None:
            return RecordedFile(name=content.name, why_not=f"{_UNKNOWN}: give {ACCEPTED}")
        return RecordedFile(name=content.name, kind=reason.name, why_not=f"{_NOT_READ}give {reason.instead}")
    kind, recordings = read
    filled = tuple(recording for recording in recordings if recording.series)
    notes = "; ".join(dict.fromkeys(note for recording in recordings for note in recording.notes))
    return RecordedFile(
        name=content.name, kind=kind, recordings=filled, why_not="" if filled else (notes or _EMPTY)
    )
