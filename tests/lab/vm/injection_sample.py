"""Runs of the injections that are kept with the code, and scored again with the rules as they are.

An archive holds one run without what nothing reads again, and `proofs.json`: what the kernel's own counters showed
of each injection.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from vm.injection_scores import Proven, proven_of, read_run, run_directory_of, verdict_of

SAMPLE = Path(__file__).parents[2] / "fixtures" / "real-kernels" / "runs"
PROOFS = "proofs.json"
SUFFIX = ".tar.xz"
_OF_RUN = ("run.json", "journal.jsonl")
_OF_CELL = ("cell.json", "result.json", "series.parquet")
_PATHS = re.compile(rb'"/(?:var/tmp|root|work|tmp|share|opt)/[^"]*"')


def pack(entry: Path, to: Path = SAMPLE, *, read_before: bool = False) -> Path:
    """Write the archive of one run of `inject` and return its path.

    Args:
        entry: its directory, with the run and the counters.
        to: directory of archives.
        read_before: rules may have been changed on it, so what they say now is no first reading.
    """
    run = run_directory_of(entry)
    kernel, proven = proven_of(entry)
    if not read_before:
        proven = [replace(item, first=verdict_of(read)) for read, item in read_run(run, proven)]
    proofs = {"kernel": kernel, "injections": [item.as_record() for item in proven]}
    files = {PROOFS: json.dumps(proofs, indent=1).encode() + b"\n"}
    cells = sorted(run.path.glob("cells/[0-9]*"))
    for file in [run.path / name for name in _OF_RUN] + [cell / name for cell in cells for name in _OF_CELL]:
        content = file.read_bytes()
        is_text = file.suffix != ".parquet"
        files[str(file.relative_to(run.path))] = _PATHS.sub(b'"/volume"', content) if is_text else content
    to.mkdir(parents=True, exist_ok=True)
    packed = to / f"{entry.name}{SUFFIX}"
    with tarfile.open(packed, "w:xz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed


def unpacked(sample: Path = SAMPLE) -> Iterator[tuple[Path, str, list[Proven]]]:
    """Yield each run's directory, its kernel, and what was proven of its injections, the oldest run first."""
    for archive in archives(sample):
        kernel, injections = proofs_of(archive)
        with extracted(archive) as scratch:
            yield scratch, kernel, injections


def archives(sample: Path = SAMPLE) -> list[Path]:
    """Return the archives of the runs, the oldest run first."""
    return sorted(sample.glob(f"*{SUFFIX}"), key=lambda path: path.name.removesuffix(SUFFIX)[-15:])


def proofs_of(archive: Path) -> tuple[str, list[Proven]]:
    """Return the kernel of an archive's run and what was proven of its injections; `pack` writes them first.

    Raises KeyError for an archive without them.
    """
    with tarfile.open(archive, "r:xz") as opened:
        for member in opened:  # what follows is not unpacked
            content = opened.extractfile(member) if member.name == PROOFS else None
            if content is not None:
                proofs = json.load(content)
                return proofs["kernel"], [Proven.from_record(item) for item in proofs["injections"]]
    raise KeyError(f"{archive.name} has no {PROOFS}")


@contextmanager
def extracted(archive: Path) -> Iterator[Path]:
    """Yield a directory with the files of an archive. Raises ValueError for a member that is none of a run."""
    with tempfile.TemporaryDirectory(prefix="volbench-sample-") as directory:
        scratch = Path(directory).resolve()
        with tarfile.open(archive, "r:xz") as opened:
            for member in opened.getmembers():
                content, target = opened.extractfile(member), (scratch / member.name).resolve()
                if content is None or not target.is_relative_to(scratch):
                    raise ValueError(f"{archive.name}: {member.name} is no file of a run")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
        yield scratch
