"""What several samplers of one process share: the connection to the server, and its control group."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from volbench.measure.sample.config import SamplingConfig
from volbench.measure.sample.connection import ServerConnection
from volbench.measure.sample.own_account import OwnAccount
from volbench.measure.sample.server_group import ServerGroup


class Shared:
    """Made at first use, so that only the wanted sources open anything."""

    def __init__(self, config: SamplingConfig) -> None:
        self._config = config

    @cached_property
    def server(self) -> ServerConnection:
        """The connection; who uses it closes it."""
        option_file = Path(self._config.option_file) if self._config.option_file else None
        return ServerConnection(option_file, self._config.socket, read_only=self._config.read_only)

    @cached_property
    def own_account(self) -> OwnAccount | None:
        """The statements of that connection, to be subtracted; None where they are not counted."""
        return OwnAccount() if self._config.read_only else None

    @cached_property
    def server_group(self) -> ServerGroup | None:
        """The control group of a server that is a process of this machine; None for others."""
        return ServerGroup(Path(self._config.server_state)) if self._config.server_state else None
