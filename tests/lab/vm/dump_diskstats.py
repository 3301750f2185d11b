"""Inside the machine: writes /proc/diskstats once a second, as pt-stalk saves it.

python3 dump_diskstats.py FILE SECONDS DEVICE...
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path


def main(target: str, seconds: str, *devices: str) -> None:
    """Write samples of some devices; a sample is a line `TS`, then the devices' lines."""
    begin = time.monotonic()
    with Path(target).open("w", encoding="ascii") as file:
        for number in range(int(seconds) + 1):
            time.sleep(max(0.0, begin + number - time.monotonic()))
            now = time.time_ns()
            moment = datetime.fromtimestamp(now / 1e9, tz=UTC)
            file.write(f"TS {now // 10**9}.{now % 10**9:09} {moment:%F %T}\n")
            lines = Path("/proc/diskstats").read_text(encoding="ascii").splitlines()
            file.writelines(f"{line}\n" for line in lines if line.split()[2] in devices)


if __name__ == "__main__":
    main(*sys.argv[1:])
