"""Tests of the virtual machine of `make lab-vm`: its devices are made, erased and filled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip them anywhere else."""
    if os.environ.get("VOLBENCH_LAB_VM") != "1":
        parent = Path(__file__).parent
        for item in items:
            if parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs vm: runs in the machine of make test-vm"))
