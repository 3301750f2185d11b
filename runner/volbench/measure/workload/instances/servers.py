"""The further servers of the instances step: copies of the cell's data on the same volume, each with a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from volbench.core.base.text import size
from volbench.core.records.base import parse_size_bytes
from volbench.errors import MissingPrerequisite
from volbench.machine.engine.server import Server
from volbench.machine.volume.emulated.control import without_delays
from volbench.measure.workload.further_server import control_inside, copy_data, further_supervisor
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.scratch import scratch_on_volume

SERVER_BYTES = 256 << 20
"""Of memory that a server uses besides its buffer pool: threads, performance_schema, dictionary. Assumed."""
_MEMORY_INFO = Path("/proc/meminfo")
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


def require_memory(first: Server, further: int, *, where: str, info: Path = _MEMORY_INFO) -> None:
    """Raise MissingPrerequisite if the machine has not the memory of so many more servers: it would swap."""
    available = _AVAILABLE.search(info.read_text()) if info.exists() else None
    if available is None:
        return
    pool_bytes = parse_size_bytes(str(first.query("SELECT @@GLOBAL.innodb_buffer_pool_size")[0][0]))
    available_bytes, needed_bytes = int(available[1]) << 10, further * (pool_bytes + SERVER_BYTES)
    if available_bytes < needed_bytes:
        raise MissingPrerequisite(
            f"{further} further servers would need more memory than there is",
            where=where,
            evidence=f"{size(available_bytes)} available; each has a buffer pool of {size(pool_bytes)} and about"
            f" {size(SERVER_BYTES)} more, {size(needed_bytes)} in all",
            next_step="make engine.config.innodb_buffer_pool_size or the step's `counts` smaller",
        )


@contextmanager
def running_instances(first: Server, ctx: StepContext, count: int, *, step_name: str) -> Iterator[list[Server]]:
    """Yield that many running servers on the volume, the cell's own first.

    All have been (re)started with the same data. The further ones and their data are gone after the block.

    Raises StepFailed, MissingPrerequisite, Refused.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(scratch_on_volume(ctx, step_name))
        first.stop()
        with without_delays(ctx.emulator_socket) if ctx.emulator_socket else nullcontext():
            for number in range(2, count + 1):
                ctx.progress(f"copying the data for server {number} of {count}", None)
                (directory / str(number)).mkdir()
                copy_data(first.data_dir, directory / str(number) / "data")
        further = []
        for number in range(2, count + 1):
            control = first.control_dir / f"server-{number}"
            control.mkdir(mode=0o700, exist_ok=True)
            supervisor = stack.enter_context(further_supervisor(first, control))
            paths = first.paths.model_copy(
                update={
                    "data_dir": str(directory / str(number) / "data"),
                    "control_dir": str(control),
                    "server_data_dir": _data_inside(first, directory / str(number) / "data"),
                    "server_control_dir": control_inside(first, control),
                }
            )
            further.append(Server(spec=first.spec, paths=paths, supervisor=supervisor))
        for number, server in enumerate((first, *further), start=1):
            ctx.progress(f"starting server {number} of {count}", None)
            server.start()
        yield [first, *further]


def _data_inside(first: Server, data_dir: Path) -> str:
    """Return a directory next to the first server's data as servers see it; empty: by its path."""
    inside = first.paths.server_data_dir
    return f"{Path(inside).parent / data_dir.relative_to(first.data_dir.parent)}" if inside else ""
