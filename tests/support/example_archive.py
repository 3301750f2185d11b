"""The raw runs behind the examples, in one archive that results/examples/archive.json names by its hash.

The repository has their pages and figures; the runs are too large for it. `make examples-archive
EXAMPLE_RUNS=DIRECTORY` writes the archive from DIRECTORY/EXAMPLE/RUN (EXAMPLE/PART/RUN of an example's further
runs), and `make examples ARCHIVE=FILE` renders each example's pages again, with the sentences of the present
version. A further run has figures and Markdown, and a page where the example has one. Without the file the
committed pages stay, and the command names them.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from shared_assets import remove_unused, shared
from stored_files import REPORT, store_text

from volbench.results.report.render import write_reports
from volbench.results.store.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "results" / "examples"
INDEX = "archive.json"
RUN_FILE = "run.json"
OUT_OPTION = "--out"
"""Of a command line: a directory of the machine that made the run, which is nobody's else."""


class ArchiveFault(Exception):
    """The archive cannot be had, or is another one than the repository names."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What the repository knows of the archive: `examples` has the run of each example."""

    file: str
    sha256: str
    size_bytes: int
    examples: Mapping[str, str]


def read_index(examples: Path) -> Archive:
    """Return which archive the examples are of. Raise ArchiveFault where they name none."""
    path = examples / INDEX
    if not path.is_file():
        raise ArchiveFault(f"{path}: no archive is named; `make examples-archive EXAMPLE_RUNS=DIRECTORY` makes one")
    return Archive(**json.loads(path.read_text(encoding="utf-8")))


def pack(runs: Path, file: Path, examples: Path = EXAMPLES) -> Archive:
    """Write the newest run of each directory that is named like an example, and the index.

    Raises:
        ArchiveFault: no directory has a run.
    """
    named = sorted([*runs.glob(f"*/*/{RUN_FILE}"), *runs.glob(f"*/*/*/{RUN_FILE}")])
    newest = {
        path.parent.parent.relative_to(runs).as_posix(): path.parent  # the last of a name wins
        for path in named
        if (examples / path.parent.parent.relative_to(runs)).is_dir()
    }
    if not newest:
        raise ArchiveFault(f"{runs}: no directory is named like an example and has a run")
    with tarfile.open(file, "w:xz", preset=6) as archive:
        for name, run in newest.items():
            for path in sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink()):
                _add(archive, path, f"{name}/{run.name}/{path.relative_to(run)}")
    written = Archive(
        file=file.name,
        sha256=_sha256(file),
        size_bytes=file.stat().st_size,
        examples={name: run.name for name, run in newest.items()},
    )
    (examples / INDEX).write_text(json.dumps(asdict(written), indent=1) + "\n", encoding="utf-8")
    return written


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file without its owner and time; of the run's command, without the directory it wrote to."""
    with tempfile.TemporaryDirectory() as scratch:
        if path.name == RUN_FILE:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if OUT_OPTION in record["command"]:
                at = record["command"].index(OUT_OPTION)
                del record["command"][at : at + 2]
            path = Path(scratch, RUN_FILE)
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        member = archive.gettarinfo(path, name)
        member.mtime, member.uid, member.gid, member.uname, member.gname, member.mode = 0, 0, 0, "", "", 0o644
        with path.open("rb") as content:
            archive.addfile(member, content)


def render(file: Path, examples: Path = EXAMPLES) -> tuple[str, ...]:
    """Write the pages and figures of each example from its run, and return the names of the examples.

    Raises:
        ArchiveFault: the file is not there, or is not the one that the index names.
    """
    index = read_index(examples)
    remaining = f"; the committed pages of {', '.join(index.examples)} stay as they are"
    if not file.is_file():
        raise ArchiveFault(f"{file}: no such file ({index.size_bytes:,} bytes, sha256 {index.sha256}){remaining}")
    if (actual := _sha256(file)) != index.sha256:
        raise ArchiveFault(f"{file}: its sha256 is {actual}, and {INDEX} names {index.sha256}{remaining}")
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(file) as archive:
        _extract(archive, Path(scratch))
        for name, run in index.examples.items():
            directory = RunDirectory.open(Path(scratch, name, run))
            write_reports(directory)
            shutil.copy(directory.path / "report.md", examples / name / "report.md")
            page = examples / name / "report.html"
            if "/" not in name or page.is_file():
                text = (directory.path / page.name).read_text(encoding="utf-8")
                page.write_text(shared(text, examples, page.parent), encoding="utf-8")
            store_text(examples / name / REPORT, (directory.path / "report.json").read_text(encoding="utf-8"))
    remove_unused(examples)
    return tuple(index.examples)


def _extract(archive: tarfile.TarFile, directory: Path) -> None:
    """Write the files of an archive. Python has a filter for it from 3.11.4 on, and Debian 12 has 3.11.2.

    Raises:
        ArchiveFault: it has something else than files below the directory.
    """
    for member in archive:
        name = PurePosixPath(member.name)
        content = archive.extractfile(member) if member.isfile() else None
        if content is None or name.is_absolute() or ".." in name.parts:
            raise ArchiveFault(f"{member.name}: no file below the archive's own directory")
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with content, path.open("wb") as target:
            shutil.copyfileobj(content, target)


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(arguments: list[str]) -> int:
    """`pack RUNS FILE` or `render FILE`."""
    try:
        if arguments[0] == "pack":
            written = pack(Path(arguments[1]), Path(arguments[2]))
            print(f"{written.file}: {written.size_bytes:,} bytes, sha256 {written.sha256}")  # noqa: T201 - run by hand
            return 0
        for name in render(Path(arguments[1])):
            print(f"results/examples/{name}")  # noqa: T201 - run by hand
    except (ArchiveFault, OSError, tarfile.TarError, lzma.LZMAError) as error:
        sys.stderr.write(f"examples: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
