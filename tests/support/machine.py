"""What tests need beyond Python: asked once per session, missing means skip with the reason, or fail by REQUIRE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import cluster_run

from volbench.machine.placement import capabilities
from volbench.machine.placement.docker.image_names import images_ready
from volbench.machine.volume.emulated.requirements import find_daemon


def emulator() -> capabilities.Means:
    """What emulated volumes need of the machine, and their daemon."""
    result = capabilities.fuse_and_loop()
    if result.present and find_daemon() is None:
        repair = "make test, where cargo is or can be installed"
        return capabilities.Means(
            name="emulator", present=False, evidence="the emulator's daemon is not built", remedy=repair
        )
    return result


#: Marker of a test -> the question to the machine. REQUIRE names the same words.
QUESTIONS: Mapping[str, Callable[[], capabilities.Means]] = {
    "docker": images_ready,
    "kubernetes": cluster_run.ready,
    "emulator": emulator,
    "browser": capabilities.chromium,
    "mysqld": capabilities.local_server_tools,
    "nfs": capabilities.nfs_client,
}


@cache
def look(name: str) -> capabilities.Means:
    """The machine's answer about one of QUESTIONS."""
    return QUESTIONS[name]()


def parse_require(text: str) -> frozenset[str]:
    """Names in REQUIRE, such as `docker,browser`; raises ValueError for a word that is none."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(names - QUESTIONS.keys())
    if unknown:
        raise ValueError(f"REQUIRE knows {', '.join(QUESTIONS)}; not {', '.join(unknown)}")
    return names


def reason(result: capabilities.Means) -> str:
    """Why a test cannot run here, with the command that changes it."""
    return f"needs {result.name}: {result.evidence} (mend: {result.remedy})"
