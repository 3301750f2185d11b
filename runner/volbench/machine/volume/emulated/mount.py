"""The file system of an emulated block volume: created on the loop device, mounted, unmounted."""

from __future__ import annotations

from pathlib import Path

from volbench.errors import StepFailed
from volbench.machine.volume.emulated.attachments import attachments
from volbench.machine.volume.emulated.commands import CompletedCommand, run, wait_until
from volbench.machine.volume.emulated.control import ANSWER_S_MAX

FORMATTED = "formatted"
"""In backing/: the name of the file system that was made."""
_LOG_CHARACTERS = 1500


def mount_block(directory: Path, device: Path | None = None) -> None:
    """Mount the file system of a volume that is a block device. Raises StepFailed.

    Args:
        device: the loop device; None: the attached one.
    """
    if device is None:
        loops = attachments(directory).loops
        if not loops:
            raise StepFailed("the emulated volume has no loop device any more", where=str(directory))
        device = Path("/dev") / loops[0]
    made_as = (directory / "backing" / FORMATTED).read_text(encoding="ascii")
    # xfs refuses a second file system of the same UUID, which a killed volume may have left somewhere.
    options = ["-o", "nouuid"] if made_as == "xfs" else []
    run_or_fail(
        directory, ["mount", "-t", made_as.partition("-")[0], *options, str(device), str(directory / "data")]
    )


def unmount_block(directory: Path) -> None:
    """Unmount the file system of a block volume; the device stays attached. Raise StepFailed."""
    last = CompletedCommand(code=None, output="")

    def unmounted() -> bool:
        nonlocal last
        last = run(["umount", str(directory / "data")])  # a sampler may use it for a moment
        return last.code == 0

    if not wait_until(unmounted, timeout_s=ANSWER_S_MAX):
        raise StepFailed("the emulated volume is in use", where=str(directory), evidence=last.output)


def run_or_fail(directory: Path, argv: list[str], *, timeout_s: float = 60.0) -> str:
    """Return a program's output. Raise StepFailed with its output, or the log of the volume's daemon."""
    done = run(argv, timeout_s=timeout_s)
    if done.code != 0:
        raise StepFailed(
            f"{argv[0]} failed" if done.code is not None else f"{argv[0]} did not end within {timeout_s:g} s",
            where=str(directory),
            evidence=done.output or log_tail(directory),
            next_step=f"the command was: {' '.join(argv)}",
        )
    return done.output


def log_tail(directory: Path) -> str:
    """Return the end of the daemon's log."""
    try:
        return (directory / "daemon.log").read_text(errors="replace")[-_LOG_CHARACTERS:].strip()
    except OSError:
        return ""
