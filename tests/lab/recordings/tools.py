"""sar and iostat beside a load, once a second, and their texts as a DBA would have them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ENVIRONMENT = {**os.environ, "LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": ""}
SAR_TEXT, IOSTAT_TEXT = "sar.txt", "iostat.txt"
REPORTS = ("-u", "-d", "-b", "-n", "DEV", "-q")
"""What sar prints of its binary file."""
_OTHER_DEVICES = re.compile(r"\s(?:(?:loop|ram|zram|sr)\d+|veth\w+|br-\w+)\s")
_END_S = 60


class Tools:
    """Both tools, started at once; `write` waits for their end.

    Args:
        directory: where their texts go; it must exist.
        device: kernel name of the volume's block device.
        seconds: how many samples.
    """

    def __init__(self, directory: Path, device: str, seconds: int) -> None:
        self._directory, self._device = directory, device
        self._binary = directory / "sa.bin"
        self._processes: list[subprocess.Popen[bytes]] = []
        sar = ["sar", "-o", str(self._binary), "1", str(seconds)]
        iostat = ["iostat", "-x", "-t", "1", str(seconds + 1), device]
        with (directory / IOSTAT_TEXT).open("wb") as text:
            try:
                self._processes.append(subprocess.Popen(sar, stdout=subprocess.DEVNULL, env=ENVIRONMENT))
                self._processes.append(subprocess.Popen(iostat, stdout=text, env=ENVIRONMENT))
            except OSError:
                self.stop()
                raise

    def write(self) -> None:
        """Wait for both, and write sar's text. Raises subprocess.SubprocessError."""
        for process in self._processes:
            if process.wait(timeout=_END_S):
                raise subprocess.CalledProcessError(process.returncode, process.args)
        text = subprocess.run(
            ["sar", *REPORTS, "-f", str(self._binary)], check=True, capture_output=True, text=True, env=ENVIRONMENT
        ).stdout
        (self._directory / SAR_TEXT).write_text(_without_other_devices(text, self._device), encoding="utf-8")
        self._binary.unlink()

    def stop(self) -> None:
        """End what still runs before its time."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
            process.wait(timeout=_END_S)


def _without_other_devices(text: str, device: str) -> str:
    lines = text.splitlines()
    remaining = [line for line in lines if device in line.split() or not _OTHER_DEVICES.search(line + " ")]
    return "\n".join(remaining) + "\n"
