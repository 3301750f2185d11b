"""Whose servers a run measures: its own, or servers that run already; what a plan asks of either kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from typing_extensions import override

from volbench.core.plan.volume_check import check_volumes
from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec
from volbench.core.records.run import ResolvedSuite, TargetName, VolumeSpec
from volbench.errors import UsageError
from volbench.machine.placement.attach import parse_servers, server_volumes, target_options
from volbench.machine.placement.kubernetes.options import parse_options


@dataclass(frozen=True, kw_only=True)
class TargetRequest:
    """Where a suite is to run, in the words of the command line.

    Args:
        target: `auto`, `local`, `docker`, `kubernetes` or `attach`.
        options: `KEY=VALUE` each, of the target.
        servers: DSNs of servers that run already, `NAME=DSN` where there are several.
        option_files: of these servers' accounts.
        tools: image with volbench and the tools; empty: that of this version.
    """

    target: str = "auto"
    options: Sequence[str] = ()
    servers: Sequence[str] = ()
    option_files: Sequence[str] = ()
    tools: str = ""

    @property
    def name(self) -> str:
        """The target's name; a server that runs already decides what `auto` means."""
        return "attach" if self.servers and self.target == "auto" else self.target


class Servers(ABC):
    """The servers of a run.

    Attributes:
        attached: those that run already, by the name of the volume that stands for them.
    """

    attached: Mapping[str, AttachSpec] = MappingProxyType({})

    @abstractmethod
    def volumes(self, arguments: Sequence[str], suite_volumes: Mapping[str, str]) -> list[VolumeSpec]:
        """Return the volumes to compare, given as `NAME=SPEC`, or by the suite. Raise UsageError."""

    @abstractmethod
    def options(self) -> dict[str, Scalar]:
        """Return the target's options for run.json. Raise UsageError."""

    @abstractmethod
    def check_suite(self, suite: ResolvedSuite) -> None:
        """Raise UsageError for a swept parameter, or an encryption, that these servers cannot have."""

    def with_sampling(self, suite: ResolvedSuite) -> ResolvedSuite:
        """Return the suite with the samples that these servers can have. Raise UsageError."""
        return suite


class OwnServers(Servers):
    """Servers that volbench starts, one for each cell."""

    def __init__(self, target: TargetName, request: TargetRequest) -> None:
        self._target = target
        self._request = request

    def volumes(self, arguments: Sequence[str], suite_volumes: Mapping[str, str]) -> list[VolumeSpec]:
        """Return the given volumes, else those of the suite."""
        pairs = list(arguments) or [f"{name}={spec}" for name, spec in suite_volumes.items()]
        return check_volumes(pairs, target=self._target)

    def options(self) -> dict[str, Scalar]:
        """Return the given options and image."""
        tools = {"tools": self._request.tools} if self._request.tools else {}
        return {**parse_options(self._request.options), **tools}

    def check_suite(self, suite: ResolvedSuite) -> None:
        """Do nothing: volbench configures these servers."""


class RunningServers(Servers):
    """Servers that run already; each stands for the volume that it has."""

    def __init__(self, attached: Mapping[str, AttachSpec]) -> None:
        self.attached = attached

    @override
    def volumes(self, arguments: Sequence[str], suite_volumes: Mapping[str, str]) -> list[VolumeSpec]:
        """Return what stands for each server."""
        if arguments:
            raise UsageError(
                "an attached server keeps its own volume", where="--volume", next_step="leave --volume out"
            )
        return server_volumes(self.attached)

    def options(self) -> dict[str, Scalar]:
        """Return the address of a single server."""
        return target_options(self.attached)

    def check_suite(self, suite: ResolvedSuite) -> None:
        """Refuse to vary what is no parameter of a step, and to encrypt."""
        if suite.server.encryption != "none":
            raise UsageError(
                "volbench does not configure an attached server: its tables are encrypted as it is set",
                where="engine.encryption",
                evidence=suite.server.encryption,
                next_step="leave engine.encryption out, or choose another target",
            )
        fixed = [key for key in (suite.sweep.factors if suite.sweep else ()) if not key.startswith("steps.")]
        if fixed:
            raise UsageError(
                f"volbench does not configure an attached server: {fixed[0]} cannot be varied",
                where="sweep",
                next_step="vary parameters of steps only, or choose another target",
            )

    @override
    def with_sampling(self, suite: ResolvedSuite) -> ResolvedSuite:
        """Return the suite without the contrast of sizes, which reads data files while no server runs."""
        if suite.sampling.size_contrast_s:
            raise UsageError(
                "the contrast of sizes reads the data files of a server that volbench has stopped",
                where="sampling.size_contrast",
                evidence="an attached server runs on",
                next_step="leave size_contrast out, or choose another target",
            )
        sampling = suite.sampling.model_copy(update={"size_contrast_s": 0.0})
        return suite.model_copy(update={"sampling": sampling})


def servers_of(target: TargetName, request: TargetRequest) -> Servers:
    """Return the servers that a request means; a password in a DSN is refused, whatever the target is.

    Raises UsageError.
    """
    has_servers = request.servers or target == "attach"
    attached = parse_servers(request.servers, request.option_files) if has_servers else {}
    if attached and target != "attach":
        raise UsageError(
            f"the {target} target starts its own server",
            where="--server",
            next_step="add --target attach, or leave --server out",
        )
    if request.options and target != "kubernetes":
        raise UsageError(
            f"the {target} target has no such options", where="--target-option", next_step="leave it out"
        )
    return RunningServers(attached) if attached else OwnServers(target, request)
