"""TLS options of a connection, with the names and values of MySQL's own clients, and tokens for a password."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from volbench.core.records.base import Record

SslMode = Literal["", "DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]
TLS_KEYS = ("ssl_mode", "ssl_ca", "ssl_cert", "ssl_key")
VERIFYING = ("VERIFY_CA", "VERIFY_IDENTITY")


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class TlsOptions(Record):
    """How a TCP connection is encrypted and what is checked; a Unix socket needs none of it.

    A part may come from an option file: `engine.tls.tls_of` joins them and checks the whole.
    """

    ssl_mode: Annotated[SslMode, BeforeValidator(_upper)] = Field(
        default="",
        description="As --ssl-mode of MySQL's clients. Empty: VERIFY_CA if ssl_ca is given, else PREFERRED.",
    )
    ssl_ca: str = Field(default="", description="File with the certificates of the authority (CA), PEM.")
    ssl_cert: str = Field(default="", description="File with the client's certificate, PEM.")
    ssl_key: str = Field(default="", description="File with the client's private key, PEM.")

    @property
    def mode(self) -> SslMode:
        """The mode in effect."""
        return self.ssl_mode or ("VERIFY_CA" if self.ssl_ca else "PREFERRED")

    @property
    def encrypts(self) -> bool:
        """Whether a connection without TLS is refused."""
        return self.mode not in ("DISABLED", "PREFERRED")


class ServerAccess(TlsOptions):
    """How a server that volbench did not start is connected to."""

    password_unverified: bool = Field(
        default=False,
        description="Give the password itself to a server over TCP whose certificate is not verified, if it asks.",
    )

    rds_iam_region: str = Field(
        default="",
        pattern=r"^([a-z]{2,5}(-[a-z]+)+-[0-9])?$",
        description="AWS region of an endpoint of RDS or Aurora: IAM tokens take the password's place.",
    )
