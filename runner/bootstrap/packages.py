"""Debian packages: which ones are missing, what each is for, and their installation in one go."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bootstrap.command import run, with_rights
from bootstrap.console import Console
from bootstrap.places import Places
from volbench.errors import EnvironmentLacks
from volbench.target import means

INSTALL_TIMEOUT_S = 900.0
APT = (
    "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y",
    "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-unsafe-io",
    "-o", "Dpkg::Options::=--force-confold",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something a Debian package brings: how to see that it is there, the packages to choose from, and why.

    The first package of `packages` that the distribution offers is taken; an optional need may stay unmet.
    """

    met: Callable[[], bool]
    packages: tuple[str, ...]
    why: str
    optional: bool = False


def program(name: str, *packages: str, why: str, optional: bool = False) -> Need:
    """A need met by a program on PATH or in the sbin directories."""
    return Need(
        met=lambda: shutil.which(name, path=means.SEARCH_PATH) is not None,
        packages=packages or (name,),
        why=why,
        optional=optional,
    )


def parse_candidates(policy: str) -> frozenset[str]:
    """Names of packages that `apt-cache policy` shows an installable version of."""
    return frozenset(
        name for name, version in re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)$", policy, re.MULTILINE)
        if version != "(none)"
    )  # fmt: skip


def choose(needs: Iterable[Need], offered: frozenset[str]) -> dict[str, str]:
    """Package to reason, for needs in their order.

    Raises EnvironmentLacks when a need that is not optional has no package on offer.
    """
    chosen: dict[str, str] = {}
    for need in needs:
        package = next((name for name in need.packages if name in offered), None)
        if package is None and not need.optional:
            raise EnvironmentLacks(
                what=f"the distribution offers none of {', '.join(need.packages)}",
                where="Debian packages",
                evidence=f"needed for: {need.why}",
                next_step="check the machine's apt sources, or install the program by hand",
            )
        if package is not None:
            chosen.setdefault(package, need.why)
    return chosen


def install(needs: Sequence[Need], places: Places, console: Console) -> None:
    """Install what is missing, after saying what and why; nothing is asked or run when nothing is missing.

    Raises EnvironmentLacks without apt, without rights, or when apt fails; Refused on the user's no.
    """
    missing = [need for need in needs if not need.met()]
    if all(need.optional for need in missing):
        return
    lacks = "missing: " + "; ".join(f"{' or '.join(need.packages)} ({need.why})" for need in missing)
    if shutil.which("apt-get") is None:
        raise EnvironmentLacks(
            what="this machine has no apt-get, so its packages cannot be installed for you",
            where="Debian packages",
            evidence=lacks,
            next_step="install them with this distribution's own package manager",
        )
    if not means.root_rights().present:
        raise EnvironmentLacks(
            what="Debian packages are missing, and there is no right to install them",
            where="Debian packages",
            evidence=lacks,
            next_step="run the same command as root or with sudo installed, or have them installed",
        )
    apt = with_rights(APT)
    log = places.log("packages")
    names = [name for need in missing for name in need.packages]
    if not all(need.optional or names_on_offer(need.packages) for need in missing):
        run([*apt, "update"], log=log, what="apt-get update", timeout_s=INSTALL_TIMEOUT_S)
    chosen = choose(missing, names_on_offer(names))
    reasons = "; ".join(f"{package} ({why})" for package, why in chosen.items())
    console.consent("installing Debian packages", reasons)
    command = [*apt, "install", "--no-install-recommends", *chosen]
    try:
        run(command, log=log, what="apt-get install", timeout_s=INSTALL_TIMEOUT_S)
    except EnvironmentLacks:  # the lists may be older than the archive
        run([*apt, "update"], log=log, what="apt-get update", timeout_s=INSTALL_TIMEOUT_S)
        run(command, log=log, what="apt-get install", timeout_s=INSTALL_TIMEOUT_S)
    unmet = [need.why for need in missing if not need.optional and not need.met()]
    if unmet:
        raise EnvironmentLacks(
            what=f"apt-get installed {', '.join(chosen)}, yet this is still missing: {'; '.join(unmet)}",
            where="Debian packages",
            evidence=f"see {log}",
        )


def names_on_offer(names: Sequence[str]) -> frozenset[str]:
    """Those of `names` that apt knows an installable version of."""
    answer = means.ask(["env", "LC_ALL=C", "apt-cache", "policy", *names], timeout_s=60)
    return parse_candidates(answer.output) if answer.code == 0 else frozenset()
