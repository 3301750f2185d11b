"""Loop devices that processes of the bare machine left attached."""

from __future__ import annotations

import subprocess
from pathlib import Path


def detach_loop_devices(directory: Path) -> None:
    """Detach every loop device whose file lies below `directory`, by what the kernel says of the file."""
    for device in Path("/sys/block").glob("loop*"):
        try:
            backing = (device / "loop" / "backing_file").read_text().strip()
        except OSError:
            continue
        if backing.startswith(f"{directory}/"):
            subprocess.run(["losetup", "--detach", f"/dev/{device.name}"], check=False)
