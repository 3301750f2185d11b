"""Debian packages: which ones are missing, what each is for, and their installation in one go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bootstrap.command import run, with_rights
from bootstrap.console import Console
from bootstrap.directories import Directories
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

INSTALL_TIMEOUT_S = 900.0
APT = (
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "apt-get",
    "-q",
    "-y",
    "-o",
    "DPkg::Lock::Timeout=300",
    "-o",
    "Dpkg::Options::=--force-unsafe-io",
    "-o",
    "Dpkg::Options::=--force-confold",
)


@dataclass(frozen=True, kw_only=True)
class Need:
    """A requirement that a Debian package meets: its test, the packages to choose from, and the reason.

    The first package of `packages` that the distribution offers is installed; an optional need may stay unmet.
    """

    met: Callable[[], bool]
    packages: tuple[str, ...]
    reason: str
    optional: bool = False


def program(name: str, *packages: str, reason: str, optional: bool = False) -> Need:
    """Return a need for a program on PATH or in the sbin directories."""
    return Need(
        met=lambda: shutil.which(name, path=capabilities.SEARCH_PATH) is not None,
        packages=packages or (name,),
        reason=reason,
        optional=optional,
    )


def parse_candidates(policy: str) -> frozenset[str]:
    """Return the packages with an installable version in the output of `apt-cache policy`."""
    return frozenset(
        name
        for name, version in re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)$", policy, re.MULTILINE)
        if version != "(none)"
    )


def choose(needs: Iterable[Need], offered: frozenset[str]) -> dict[str, str]:
    """Return package -> reason, for needs in their order.

    Raises MissingPrerequisite if the distribution has no package for a need that is not optional.
    """
    chosen: dict[str, str] = {}
    for need in needs:
        package = next((name for name in need.packages if name in offered), None)
        if package is None and not need.optional:
            raise MissingPrerequisite(
                what=f"the distribution offers none of {', '.join(need.packages)}",
                where="Debian packages",
                evidence=f"needed for: {need.reason}",
                next_step="check the machine's apt sources, or install the program by hand",
            )
        if package is not None:
            chosen.setdefault(package, need.reason)
    return chosen


def install(needs: Sequence[Need], directories: Directories, console: Console) -> None:
    """Install missing packages, after announcing them with reasons; do nothing if none is missing.

    Raises MissingPrerequisite without apt, without root, or if apt fails; Refused if the user declines.
    """
    missing = [need for need in needs if not need.met()]
    if all(need.optional for need in missing):
        return
    missing_text = "missing: " + "; ".join(f"{' or '.join(need.packages)} ({need.reason})" for need in missing)
    if shutil.which("apt-get") is None:
        raise MissingPrerequisite(
            what="this machine has no apt-get, so the set-up cannot install packages",
            where="Debian packages",
            evidence=missing_text,
            next_step="install them with this distribution's own package manager",
        )
    if not capabilities.root_rights().present:
        raise MissingPrerequisite(
            what="Debian packages are missing, and their installation needs root",
            where="Debian packages",
            evidence=missing_text,
            next_step="run the same command as root or with sudo, or install the packages first",
        )
    apt = with_rights(APT)
    log = directories.log("packages")
    names = [name for need in missing for name in need.packages]
    if not all(need.optional or names_on_offer(need.packages) for need in missing):
        run([*apt, "update"], log=log, label="apt-get update", timeout_s=INSTALL_TIMEOUT_S)
    chosen = choose(missing, names_on_offer(names))
    reasons = "; ".join(f"{package} ({reason})" for package, reason in chosen.items())
    console.consent("installing Debian packages", reasons)
    command = [*apt, "install", "--no-install-recommends", *chosen]
    try:
        run(command, log=log, label="apt-get install", timeout_s=INSTALL_TIMEOUT_S)
    except MissingPrerequisite:  # the lists may be older than the archive
        run([*apt, "update"], log=log, label="apt-get update", timeout_s=INSTALL_TIMEOUT_S)
        run(command, log=log, label="apt-get install", timeout_s=INSTALL_TIMEOUT_S)
    unmet = [need.reason for need in missing if not need.optional and not need.met()]
    if unmet:
        raise MissingPrerequisite(
            what=f"apt-get installed {', '.join(chosen)}, but this is still missing: {'; '.join(unmet)}",
            where="Debian packages",
            evidence=f"see {log}",
        )


def names_on_offer(names: Sequence[str]) -> frozenset[str]:
    """Return those of `names` for which apt has an installable version."""
    answer = capabilities.ask(["env", "LC_ALL=C", "apt-cache", "policy", *names], timeout_s=60)
    return parse_candidates(answer.output) if answer.code == 0 else frozenset()
