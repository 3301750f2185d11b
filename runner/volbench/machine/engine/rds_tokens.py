"""IAM tokens of Amazon RDS and Aurora in place of a password, signed here by boto3 without any request.

A token is valid for 15 minutes, and counts when a connection begins, not afterwards. Source: Amazon RDS User Guide,
IAM database authentication.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from volbench.core.base.extras import require
from volbench.errors import MissingPrerequisite, VolbenchError

_log = logging.getLogger(__name__)
TOKEN_AGE_MAX_S = 600.0
"""A token that is older is signed again, so that a program has 5 minutes to connect with what it was given."""


@dataclass(frozen=True, kw_only=True)
class RdsTokens:
    """The tokens of one database user at one endpoint.

    Args:
        region: of the endpoint, such as eu-west-1.
        host, port: the endpoint as AWS names it, since both are signed.
    """

    region: str
    host: str
    port: int
    user: str

    def current(self) -> str:
        """Return a token of at most TOKEN_AGE_MAX_S. Raise MissingPrerequisite without boto3 or credentials."""
        token, signed_s = _signed.get(self, ("", 0.0))
        if not token or time.monotonic() - signed_s >= TOKEN_AGE_MAX_S:
            token, signed_s = self._sign(), time.monotonic()
            _signed[self] = (token, signed_s)
        return token

    def _sign(self) -> str:
        require("boto3")
        import boto3  # noqa: PLC0415 - an extra; most users have no need of it
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415

        try:
            client = boto3.Session().client("rds", region_name=self.region)
            return str(client.generate_db_auth_token(DBHostname=self.host, Port=self.port, DBUsername=self.user))
        except (BotoCoreError, ValueError) as error:  # ValueError: of a region that is no host's name
            raise MissingPrerequisite(
                "no IAM token can be signed for the server",
                where=f"{self.host}:{self.port}",
                evidence=f"{type(error).__name__}: {error}",
                next_step="give boto3 credentials (environment, profile, instance role), and check rds-iam-region",
            ) from error


_signed: dict[RdsTokens, tuple[str, float]] = {}
"""The last token of each, and when it was signed, monotonic seconds; of this process alone."""


@contextmanager
def renewing(renew: Callable[[], object], *, every_s: float = 60.0) -> Iterator[None]:
    """Call `renew` again and again during the block, so that programs that connect later have a valid token.

    A failure is logged and tried again: the token of before may still be valid.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_s):
            try:
                renew()
            except VolbenchError as error:
                _log.warning("the IAM token was not renewed: %s", error)

    thread = threading.Thread(target=work, name="iam-tokens", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
