"""Packages that only some commands need, and what to install where one of them is missing."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from volbench.errors import MissingPrerequisite

PURPOSES = {
    "aws": "CloudWatch, IAM tokens of RDS, the modification of an EBS volume, and everything in S3",
    "kubernetes": "--target kubernetes, storage classes and `volbench k8s`",
    "pytest": "the pytest plugin",
    "query": "`volbench query`",
    "server": "--target local and attach, `volbench observe` and `volbench capture`",
    "validate": "`volbench validate`",
}
"""Extra of pyproject.toml -> what it is for."""
EXTRA_OF = {
    "boto3": "aws",
    "botocore": "aws",
    "duckdb": "query",
    "fsspec": "query",
    "kubernetes": "kubernetes",
    "mysql": "server",
    "pytest": "pytest",
    "sqlglot": "validate",
    "testcontainers": "pytest",
}
"""Top-level module -> the extra that installs it."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where this volbench came from: a checkout or a wheel.

    No package index has volbench, so its name alone installs nothing.
    """
    pip = shlex.join([sys.executable, "-m", "pip", "install"])
    source = _source()
    if source is not None:
        return f"{pip} {shlex.quote(f'{source}[{extra}]')}"
    return f"{pip} 'WHEEL[{extra}]', where WHEEL is the file or the address that volbench was installed from"


def _source() -> str | None:
    """Return the checkout, the wheel's file or its address; None where the installation does not say it."""
    checkout = Path(__file__).resolve().parents[4]
    if (checkout / "pyproject.toml").is_file() and (checkout / "runner" / "volbench").is_dir():
        return str(checkout)
    try:
        recorded = distribution("volbench").read_text("direct_url.json")
        url = str(json.loads(recorded or "{}").get("url", ""))
    except (PackageNotFoundError, ValueError, AttributeError):
        return None
    if not url.startswith("file://"):
        return f"volbench @ {url}" if url.startswith("https://") else None
    path = Path(unquote(urlsplit(url).path))
    return str(path) if path.exists() else None


def missing_extra(error: ModuleNotFoundError) -> MissingPrerequisite | None:
    """Return what to tell about an import that failed, or None where no extra would have it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return MissingPrerequisite(
        f"the Python package {package} is not installed; it is needed for {PURPOSES[extra]}",
        where=f"extra {extra}",
        evidence=str(error),
        next_step=install_command(extra),
    )


def require(package: str) -> None:
    """Raise MissingPrerequisite with the command to install it where a package of an extra is missing."""
    try:
        present = find_spec(package) is not None
    except ValueError:  # a module that a program set to None
        present = False
    error = None if present else missing_extra(ModuleNotFoundError(f"No module named {package!r}", name=package))
    if error is not None:
        raise error
