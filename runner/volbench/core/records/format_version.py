"""Versions of file formats: the key `schema`, and what a message says of a version that is not read."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_RELEASE = "0.2.0"
"""The first version that was released; it reads no format that only versions before it wrote."""


@dataclass(frozen=True, kw_only=True)
class VersionFault:
    """Why a file of another format version is not read, and what the user can do."""

    message: str
    next_step: str


def version_fault(version: object, current: int, *, rewrite: str) -> VersionFault | None:
    """Return what is wrong with a file's `schema`; None for the version that is read.

    Args:
        version: the value in the file, of any type.
        current: the version that this volbench reads and writes.
        rewrite: the next step for a superseded format, such as `run the suite again`.
    """
    if version == current and not isinstance(version, bool):
        return None
    if isinstance(version, int) and not isinstance(version, bool) and 1 <= version < current:
        return VersionFault(
            message=f"schema {version} is a superseded format: development versions before {FIRST_RELEASE} "
            f"wrote it, and this volbench reads schema {current}",
            next_step=rewrite,
        )
    return VersionFault(
        message=f"schema {version!r} cannot be read by this volbench, which reads schema {current}",
        next_step="use the volbench version that wrote it",
    )
