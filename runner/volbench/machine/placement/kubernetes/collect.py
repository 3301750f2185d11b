"""Collects a cell's files from its pod: streamed as a tar archive, each file verified by its checksum."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import IO, cast

from kubernetes import client, stream
from kubernetes.stream.ws_client import STDERR_CHANNEL, STDOUT_CHANNEL, WSClient

from volbench.errors import StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.placement.kubernetes.manifests import CONTROL, KEEPER, OUT

EXEC_TIMEOUT_S = 600.0
TRIES = 3
SUMS = "collect.sums"
SUMS_BYTES_MAX = 16 << 20
ARCHIVE_BYTES_MAX = 4 << 30
"""Of a cell's files, hundreds of times what a cell of an hour has; and of what is unpacked, since nothing is
compressed."""
RUN_BYTES_MAX = 64 << 30
"""Of the files of a run."""
OUTPUT_BYTES_MAX = 16 << 20
"""Of a command whose output is kept in memory."""
ERROR_BYTES_MAX = 64 << 10
FILES_MAX = 1_000_000
_READ_BYTES_MAX = 1 << 20
"""At one time: tarfile reads a header of any length that it claims into memory."""
RESULT = "result.json"
_PACK = (
    f"cd {OUT} && find . -type f ! -name '*.partial' -printf '%P\\0' >{CONTROL}/collect.list"
    f" && xargs -0 -r sha256sum <{CONTROL}/collect.list >{CONTROL}/{SUMS}"
    f" && tar -cf - -C {OUT} --null -T {CONTROL}/collect.list -C {CONTROL} {SUMS}"
)


def collect(
    cluster: Cluster,
    pod: str,
    out: Path,
    *,
    complete: Callable[[Path], None],
    bytes_max: int = ARCHIVE_BYTES_MAX,
    container: str = KEEPER,
    script: str = _PACK,
) -> None:
    """Copy all files of the pod's `out` directory to the cell's, result.json last; existing files are replaced.

    Args:
        complete: called with the directory of the verified files, before they are moved.
        bytes_max: of all files together.
        container: of the pod, in which the script runs.
        script: sends an archive of the files, and of their checksums in the file SUMS.

    Raises StepFailed if files are damaged or missing, MissingPrerequisite if the cluster is unreachable.
    """
    faults = []
    for _ in range(TRIES):
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            with tempfile.TemporaryFile(dir=out.parent) as archive:
                run_in_pod(
                    cluster,
                    pod,
                    ["sh", "-c", script],
                    into=archive,
                    doing=f"collecting results of {pod}",
                    bytes_max=bytes_max,
                    container=container,
                )
                archive.seek(0)
                fault = unpack(archive, staging)
            if not fault:
                complete(staging)
                _move(staging, out)
                return
            faults.append(fault)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    raise StepFailed(
        "the collected results are incomplete or damaged",
        where=f"pod {pod}",
        evidence="; ".join(faults),
        cause="results_damaged",
    )


def run_in_pod(
    cluster: Cluster,
    pod: str,
    command: Sequence[str],
    *,
    doing: str,
    into: IO[bytes] | None = None,
    bytes_max: int = OUTPUT_BYTES_MAX,
    container: str = KEEPER,
) -> str:
    """Run a command in a container of the pod; write its output, of at most `bytes_max`, to a file, or return it.

    Raises StepFailed if the command fails, MissingPrerequisite if the cluster is unreachable.
    """

    def attempt() -> str:
        if into is not None:
            into.seek(0)
            into.truncate()
        return _exec(cluster, (pod, container), command, into, doing, bytes_max)

    return str(cluster.with_retries(attempt, doing=doing))


def _exec(
    cluster: Cluster,
    location: tuple[str, str],
    command: Sequence[str],
    into: IO[bytes] | None,
    doing: str,
    bytes_max: int,
) -> str:
    pod, container = location
    core = client.CoreV1Api(cluster.fresh_client())
    socket: WSClient = stream.stream(
        core.connect_get_namespaced_pod_exec,
        pod,
        cluster.namespace,
        container=container,
        command=list(command),
        stdin=False,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
        binary=True,
    )
    output, error_output, received = b"", b"", 0
    until_s = time.monotonic() + EXEC_TIMEOUT_S
    try:
        while socket.is_open() and time.monotonic() < until_s:
            socket.update(timeout=1)
            data = socket.read_channel(STDOUT_CHANNEL) or b""
            error_output = (error_output + (socket.read_channel(STDERR_CHANNEL) or b""))[-ERROR_BYTES_MAX:]
            received += len(data)
            if received > bytes_max:
                raise StepFailed(
                    "the pod sends more than any cell has",
                    where=doing,
                    evidence=f"more than {bytes_max >> 20} MiB",
                    cause="results_damaged",
                )
            if into is None:
                output += data
            else:
                into.write(data)
        code = _exit_code(socket)
    finally:
        socket.close()
        socket.sock.shutdown()  # `close` leaves the socket open when the other side has ended the connection
    if code is None:
        raise ConnectionError(f"the connection to pod {pod} ended before the command did")
    if code != 0:
        raise StepFailed(
            "a command in the pod failed", where=doing, evidence=f"exit code {code}: {error_output.decode()[-500:]}"
        )
    return output.decode(errors="replace")


def _exit_code(socket: WSClient) -> int | None:
    """Return the command's exit code; None after a lost connection."""
    if socket.is_open():
        return None
    try:
        code: int | None = socket.returncode
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    return code


def unpack(archive: IO[bytes], directory: Path) -> str:
    """Unpack and verify; return what is wrong, or an empty text. The pod is not trusted."""
    extracted: set[str] = set()
    try:
        reader = cast("IO[bytes]", _BoundedReader(archive))
        with tarfile.open(fileobj=reader, mode="r:") as tar:  # as tar(1) made it; nothing is decompressed
            for number, member in enumerate(tar):
                if number >= FILES_MAX:
                    return f"the archive has more than {FILES_MAX:,} members"
                if (fault := _extract(tar, member, directory)) is not None:
                    return fault
                name = str(PurePosixPath(member.name))
                if not member.isdir():
                    if name in extracted:
                        return f"the archive has {name} twice"
                    extracted.add(name)
    except (tarfile.TarError, EOFError, ValueError, OSError, MemoryError) as error:
        # OSError: names that no file system takes; MemoryError: an extended header of terabytes, read as a whole
        return f"the archive is damaged: {error or type(error).__name__}"
    return _verified(directory, extracted)


class _BoundedReader:
    """Reads an archive in pieces of at most _READ_BYTES_MAX. Raises ValueError for a larger one."""

    def __init__(self, archive: IO[bytes]) -> None:
        self._archive = archive
        self.tell, self.seek = archive.tell, archive.seek

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= _READ_BYTES_MAX:
            raise ValueError(f"a header of {size} bytes")
        return self._archive.read(size)


def _verified(directory: Path, extracted: Set[str]) -> str:
    """Compare the files with their checksums, and remove these."""
    sums = directory / SUMS
    if SUMS not in extracted or sums.stat().st_size > SUMS_BYTES_MAX:
        return "the archive ends before its checksums"
    listed: set[str] = set()
    for line in sums.read_text(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        if name not in extracted:
            return f"{name} is missing"
        listed.add(name)
        with (directory / name).open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != digest:
                return f"{name} is damaged"
    if unlisted := sorted(extracted - listed - {SUMS}):
        return f"{unlisted[0]} has no checksum, as {len(unlisted)} of {len(extracted) - 1} files"
    sums.unlink()
    return ""


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, directory: Path) -> str | None:
    """Write one regular file beneath `directory`; return what is wrong with other members than directories.

    `extractall(filter=...)` does as much, but Python 3.11 has it only from 3.11.4 on, and Debian 12 has 3.11.2.
    """
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        return f"the archive has a file outside its directory: {member.name}"
    if member.isdir():
        return None
    content = tar.extractfile(member) if member.isreg() and not member.issparse() else None
    if content is None:
        return f"the archive has a member that is not a file: {member.name}"
    target = directory / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        shutil.copyfileobj(content, file)
    return None


def _move(directory: Path, out: Path) -> None:
    """Move the files to the cell's directory; result.json last, since it marks a complete result."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    for file in sorted(files, key=lambda path: path.name == RESULT):
        target = out / file.relative_to(directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
