"""The sampling process of an observation: `python -m volbench.observe.process CONFIG.json`.

As `volbench.measure.sample.process`, but the readings go into the ring beside the configuration, whose limits are
in `ring.json`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from volbench.core.base.parse import parse_json
from volbench.measure.sample.config import read_config
from volbench.measure.sample.process import run
from volbench.observe.ring import RING, RingLimits, RingWriter, now_since

LIMITS_FILE = "ring.json"


def main(config_file: Path) -> bool:
    """Sample into the ring until told to end. False when a thread ended before its time."""
    config = read_config(config_file)
    directory = Path(config.raw_file).parent
    limits = RingLimits(**parse_json((directory / LIMITS_FILE).read_text()))
    return run(config, RingWriter(directory / RING, limits, now_since(config.zero_monotonic_ns)))


if __name__ == "__main__":
    sys.exit(0 if main(Path(sys.argv[1])) else 1)
