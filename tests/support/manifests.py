"""Manifests for tests: what `volbench k8s render` prints, and the documents of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from typer.testing import CliRunner

from volbench.cli.main import app

ROOT = Path(__file__).parents[2]


def documents(text: str) -> list[dict[str, Any]]:
    """All objects of a YAML text."""
    return [item for item in YAML(typ="safe").load_all(text) if item is not None]


def rendered(*options: str) -> list[dict[str, Any]]:
    """The objects of suites/quick.yaml on a storage class and on a claim, with options of the target."""
    volumes = ("gp3=storage-class:volbench-ebs-gp3?size=100Gi", "efs=pvc:efs-claim")
    arguments = ["k8s", "render", str(ROOT / "suites/quick.yaml")]
    arguments += [argument for volume in volumes for argument in ("--volume", volume)]
    arguments += [argument for option in options for argument in ("--target-option", option)]
    ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return documents(ran.stdout)
