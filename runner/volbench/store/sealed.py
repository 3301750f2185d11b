"""Files that nobody reads without the key: sealed in memory (Fernet: AES-128-CBC and HMAC-SHA-256), then written.

The key comes from a file or the environment, never from a command line. What is sealed was never on the disk as it
is, not even in a file that a crash would leave behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from volbench.errors import Refused, UsageError

KEY_FILE, KEY = "VOLBENCH_SEAL_KEY_FILE", "VOLBENCH_SEAL_KEY"
SUFFIX = ".sealed"
_BEGINS = b"gAAAAA"
"""Of every Fernet token until the year 2242: a version byte, and the upper bytes of its time."""


def new_key() -> str:
    """A key as `seal_with` takes it."""
    return Fernet.generate_key().decode()


def key_from(environment: Mapping[str, str]) -> Fernet:
    """The key that the environment names or holds.

    Raises UsageError without one, Refused for one that others may read.
    """
    origin, text = KEY, environment.get(KEY, "")
    if named := environment.get(KEY_FILE, ""):
        origin, text = named, _private_text(Path(named))
    if not text:
        raise UsageError(
            "no key to seal with", where="at_rest", evidence=f"neither {KEY_FILE} nor {KEY} is set",
            next_step=f"make one with `volbench sealed new-key FILE`, and set {KEY_FILE}",
        )  # fmt: skip
    try:
        return Fernet(text.strip().encode())
    except ValueError as error:
        raise UsageError(
            "this is no key", where=origin, evidence=str(error), next_step="make one with `volbench sealed new-key`"
        ) from error


def seal(content: str | bytes, key: Fernet) -> bytes:
    """The content, unreadable without the key, and any change to it told."""
    return key.encrypt(content.encode() if isinstance(content, str) else content)


def is_sealed(content: bytes) -> bool:
    """Whether it looks like what `seal` makes."""
    return content.startswith(_BEGINS)


def opened(content: bytes, key: Fernet, *, where: str) -> bytes:
    """What was sealed. Raises UsageError for another key, or for a file that was changed or cut."""
    try:
        return key.decrypt(content)
    except InvalidToken as error:
        raise UsageError(
            "the file cannot be opened with this key", where=where,
            evidence="sealed with another one, changed or cut",
            next_step=f"set {KEY_FILE} to the key it was made with",
        ) from error  # fmt: skip


def _private_text(path: Path) -> str:
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("the key cannot be read", where=str(path), evidence=str(error)) from error
    if mode & 0o077:
        raise Refused(
            "others may read the key", where=str(path), evidence=f"mode {mode & 0o777:04o}",
            next_step=f"chmod 600 {path}",
        )  # fmt: skip
    return text
