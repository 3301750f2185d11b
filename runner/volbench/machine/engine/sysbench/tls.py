"""TLS of sysbench's connections: its options and its files, which differ between its versions.

sysbench 1.0 knows `--mysql-ssl=on` alone and reads three files of its working directory, always all three:
cacert.pem, client-cert.pem, client-key.pem. Later builds name the files, and take MySQL's modes if they were built
with MySQL's client library (src/drivers/mysql/drv_mysql.c of both).
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base import programs
from volbench.core.records.tls import TlsOptions
from volbench.errors import MissingPrerequisite

_CA, _CERTIFICATE, _KEY = "cacert.pem", "client-cert.pem", "client-key.pem"
_UNUSED_CURVE = "secp256k1"
"""TLS 1.3 has no signature with this curve (RFC 8446, 4.2.3), so OpenSSL never sends a certificate of it."""
_VALID_DAYS = 30
_OPENSSL_TIMEOUT_S = 30
_MODES = re.compile(r"--mysql-ssl=STRING")
_FILES = "--mysql-ssl-ca="


@dataclass(frozen=True, kw_only=True)
class SysbenchTls:
    """What a build of sysbench can be told about TLS."""

    modes: bool
    named_files: bool


def tls_of_help(help_text: str) -> SysbenchTls:
    """Return what the output of `sysbench --help` shows."""
    return SysbenchTls(modes=_MODES.search(help_text) is not None, named_files=_FILES in help_text)


def installed_tls(sysbench: str) -> SysbenchTls:
    """Return what the installed sysbench can be told."""
    done = programs.run([sysbench, "--help"], capture_output=True, text=True, timeout=30, check=False)
    return tls_of_help(done.stdout)


def tls_options(tls: TlsOptions, build: SysbenchTls) -> dict[str, str]:
    """Return sysbench's options; empty for connections without TLS."""
    if not tls.encrypts:
        return {}
    options: dict[str, str] = {"mysql-ssl": tls.mode if build.modes else "on"}
    if build.named_files:
        files = {"mysql-ssl-ca": tls.ssl_ca, "mysql-ssl-cert": tls.ssl_cert, "mysql-ssl-key": tls.ssl_key}
        options |= {name: path for name, path in files.items() if path}
    return options


def tls_notes(tls: TlsOptions, build: SysbenchTls) -> tuple[str, ...]:
    """Return what a reader of the results must know about sysbench's connections."""
    if not tls.encrypts:
        return ()
    unchecked = (
        "; sysbench compares the server's certificate with the CA, not with the host's name, "
        "which volbench's own connection did before"
    )
    unchecks_name = tls.mode == "VERIFY_IDENTITY" and not build.modes
    return (f"sysbench's connections use TLS{unchecked if unchecks_name else ''}",)


def place_files(tls: TlsOptions, build: SysbenchTls, directory: Path) -> None:
    """Put the files that sysbench 1.0 reads into its working directory.

    Without a certificate of the client, one is made that no server ever gets.

    Raises MissingPrerequisite without a CA, which sysbench 1.0 cannot do without, or without openssl.
    """
    if not tls.encrypts or build.named_files:
        return
    if not tls.ssl_ca:
        raise MissingPrerequisite(
            "this sysbench connects with TLS only if it can check the server's certificate",
            where="sysbench",
            evidence=f"ssl-mode {tls.mode} without ssl-ca; sysbench 1.0 always reads a CA file",
            next_step="name the file with the CA's certificates in ssl-ca",
        )
    (directory / _CA).symlink_to(tls.ssl_ca)
    if tls.ssl_cert:
        (directory / _CERTIFICATE).symlink_to(tls.ssl_cert)
        (directory / _KEY).symlink_to(tls.ssl_key)
    else:
        _make_unused_certificate(directory)


def _make_unused_certificate(directory: Path) -> None:
    openssl = programs.find_program("openssl")
    if openssl is None:
        raise MissingPrerequisite(
            "this sysbench needs a client certificate for TLS, and openssl is not installed to make one",
            where="sysbench",
            next_step="apt-get install openssl, or give ssl-cert and ssl-key",
        )
    argv = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        f"ec_paramgen_curve:{_UNUSED_CURVE}",
        "-nodes",
        "-subj",
        "/CN=never sent",
        "-days",
        str(_VALID_DAYS),
        "-keyout",
        str(directory / _KEY),
        "-out",
        str(directory / _CERTIFICATE),
    ]
    try:
        programs.run(argv, check=True, capture_output=True, timeout=_OPENSSL_TIMEOUT_S)
    except (subprocess.SubprocessError, OSError) as error:
        raise MissingPrerequisite(
            "openssl made no certificate for sysbench",
            where="sysbench",
            evidence=str(error),
            next_step="give ssl-cert and ssl-key",
        ) from error
