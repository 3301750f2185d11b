"""What the local target needs: every program that reads a dump comes with it."""

from __future__ import annotations

import pytest

from bootstrap.local import LOCAL_NEEDS
from volbench.machine.engine.own_data import pipe

#: gzip belongs to every Debian (Essential: yes); xz has a package of another name.
ESSENTIAL = "gzip"
PACKAGES = {"xz": "xz-utils"}


@pytest.mark.parametrize("program", sorted({program for program, _ in pipe._DECOMPRESS.values()} - {ESSENTIAL}))
def test_a_dump_s_compression_is_readable_after_the_set_up(program: str) -> None:
    offered = {name for need in LOCAL_NEEDS for name in need.packages}
    assert PACKAGES.get(program, program) in offered
