"""Starts and stops the sampling process."""

from __future__ import annotations

import os
import select
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from volbench.core.base import programs, safe_files
from volbench.errors import StepFailed
from volbench.measure.sample.config import LAUNCHED, READY, STDIN, SamplingConfig

if TYPE_CHECKING:
    from volbench.core.records.cell import SourceQuality

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
MODULE = "volbench.measure.sample.process"
_PHASE = "sampling"


def launch(raw_file: Path | None = None) -> programs.Popen:
    """Start a process that imports what sampling needs and waits to be told its configuration by `SamplingProcess`.

    The imports of who starts it can go on meanwhile. The process ends where the one that started it does.

    Args:
        raw_file: its log is next to it; None: not known yet, and the log begins with the configuration.
    """
    if raw_file is None:
        return programs.start_python("-m", MODULE, STDIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    raw_file.parent.mkdir(parents=True, exist_ok=True)
    return _start(MODULE, STDIN, raw_file, stdin=subprocess.PIPE)


def wait_launched(launched: programs.Popen) -> None:
    """Wait until it has imported its modules: a cell whose time begins before waits longer for a whole interval."""
    _read_until(launched, LAUNCHED)


class SamplingProcess:
    """Samples from `start` to `stop`; afterwards `rows.series_rows(raw_file)` has the series.

    Args:
        config: what to sample; next to its `raw_file` the configuration and the process's log are left.
        module: what the process runs; another one may keep its readings elsewhere than in `raw_file`.
        launched: a process that `launch` has started for the same `raw_file`.
    """

    def __init__(
        self, config: SamplingConfig, *, module: str = MODULE, launched: programs.Popen | None = None
    ) -> None:
        self.config = config
        self._launched = launched
        self._module = module
        self.raw_file = Path(config.raw_file)
        self.log_file = _log_file(self.raw_file)
        self._config_file = self.raw_file.with_suffix(".config.json")
        self._process: programs.Popen | None = None
        self._stopped_s: float | None = None

    @property
    def pid(self) -> int | None:
        """The process's number; None before `start`."""
        return None if self._process is None else self._process.pid

    def alive(self) -> bool:
        """Return whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until the machine's own sources are read. Raises StepFailed with its log."""
        self.raw_file.parent.mkdir(parents=True, exist_ok=True)
        self._config_file.write_text(replace(self.config.with_absolute_paths(), parent_pid=os.getpid()).to_json())
        if self._launched is None:
            self._process = _start(self._module, str(self._config_file.absolute()), self.raw_file)
        else:
            self._process = self._launched
            self._tell_configuration(self._launched)
        self._wait_until_ready(self._process)

    def _tell_configuration(self, launched: programs.Popen) -> None:
        self.log_file.touch()
        assert launched.stdin is not None
        with suppress(BrokenPipeError), launched.stdin as pipe:  # one that has ended gives no answer either
            pipe.write(f"{self._config_file.absolute()}\n".encode())

    def _wait_until_ready(self, process: programs.Popen) -> None:
        if _read_until(process, READY):
            return
        self._end(process)
        raise StepFailed(
            "the sampling process did not start",
            where=_PHASE,
            evidence=self._log_tail() or f"no answer within {START_TIMEOUT_S:.0f} s",
            next_step=f"read {self.log_file}",
        )

    def stop(self) -> list[SourceQuality]:
        """End it, however it is, and say how well each source was sampled. May be called again.

        Raises StepFailed when it was never started.
        """
        from volbench.measure.sample.quality import source_quality  # noqa: PLC0415 - the process is launched before that

        self.end()
        if self._stopped_s is None:
            self._stopped_s = (time.monotonic_ns() - self.config.zero_monotonic_ns) / 1e9
        return source_quality(self.raw_file, until_s=self._stopped_s)

    def end(self) -> None:
        """End it, however it is. May be called again. Raises StepFailed when it was never started."""
        if self._process is None:
            raise StepFailed("the sampling process was never started", where=_PHASE)
        self._end(self._process)

    def _end(self, process: programs.Popen) -> None:
        process.end(grace_s=STOP_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()

    def _log_tail(self, size: int = 2000) -> str:
        return safe_files.read_end(self.log_file, bytes_max=size).decode("utf-8", "replace").strip()


def _read_until(process: programs.Popen, line: bytes) -> bool:
    """Return whether the process writes the line in time; past its buffer, which `select` does not see."""
    assert process.stdout is not None
    output, until_s = b"", time.monotonic() + START_TIMEOUT_S
    while line not in output:
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, until_s - time.monotonic()))
        read = os.read(process.stdout.fileno(), len(line)) if readable else b""
        if not read:
            return False
        output += read
    return True


def _log_file(raw_file: Path) -> Path:
    return raw_file.with_suffix(".log")


def _start(module: str, argument: str, raw_file: Path, *, stdin: int = subprocess.DEVNULL) -> programs.Popen:
    with _log_file(raw_file).open("ab") as log:
        return programs.start_python("-m", module, argument, stdin=stdin, stdout=subprocess.PIPE, stderr=log)
