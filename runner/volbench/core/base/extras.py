"""Packages that only some commands need, and what to install where one of them is missing."""

from __future__ import annotations

from importlib.util import find_spec

from volbench.errors import EnvironmentLacks

PURPOSES = {
    "aws": "reading metrics from CloudWatch, IAM tokens of RDS, and dumps to S3",
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
    "kubernetes": "kubernetes",
    "mysql": "server",
    "pytest": "pytest",
    "sqlglot": "validate",
    "testcontainers": "pytest",
}
"""Top-level module -> the extra that installs it."""


def missing_extra(error: ModuleNotFoundError) -> EnvironmentLacks | None:
    """Return what to tell about an import that failed, or None where no extra would have it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return EnvironmentLacks(
        f"the Python package {package} is not installed; it is needed for {PURPOSES[extra]}",
        where=f"extra {extra}",
        evidence=str(error),
        next_step=f"pip install 'volbench[{extra}]', or in a checkout: pip install '.[{extra}]'",
    )


def require(package: str) -> None:
    """Raise EnvironmentLacks with the command to install it where a package of an extra is missing."""
    try:
        present = find_spec(package) is not None
    except ValueError:  # a module that a program set to None
        present = False
    error = None if present else missing_extra(ModuleNotFoundError(f"No module named {package!r}", name=package))
    if error is not None:
        raise error
