"""What is sealed is read with its key alone, and a change to it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import Refused, UsageError
from volbench.records.capture import Capture
from volbench.store.sealed import KEY, KEY_FILE, is_sealed, key_from, new_key, opened, seal
from volbench.validation.capture import read_capture

ONE = key_from({KEY: new_key()})


@given(content=some.binary(max_size=300))
def test_only_its_key_opens_it(content: bytes) -> None:
    sealed = seal(content, ONE)
    assert is_sealed(sealed)
    assert opened(sealed, ONE, where="f") == content
    for other in (sealed[:-4], sealed[:20] + b"A" + sealed[21:] if sealed[20:21] != b"A" else sealed[1:]):
        with pytest.raises(UsageError, match="cannot be opened"):
            opened(other, ONE, where="f")
    with pytest.raises(UsageError, match="cannot be opened"):
        opened(sealed, key_from({KEY: new_key()}), where="f")


def test_without_a_key_or_with_one_that_others_may_read_nothing_is_done(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no key to seal with"):
        key_from({})
    with pytest.raises(UsageError, match="this is no key"):
        key_from({KEY: "short"})
    file = tmp_path / "key"
    file.write_text(new_key())
    file.chmod(0o644)
    with pytest.raises(Refused, match="others may read the key"):
        key_from({KEY_FILE: str(file)})


def test_a_key_is_made_private_and_opens_what_it_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, file = tmp_path / "key", tmp_path / "report.sealed"
    assert CliRunner().invoke(app, ["sealed", "new-key", str(key)]).exit_code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert CliRunner().invoke(app, ["sealed", "new-key", str(key)]).exit_code != 0
    monkeypatch.setenv(KEY_FILE, str(key))
    file.write_bytes(seal("grün\n", key_from({KEY_FILE: str(key)})))
    assert CliRunner().invoke(app, ["sealed", "open", str(file)]).output == "grün\n"


def test_a_sealed_capture_is_read_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Capture(
        flavor="mysql", version="9.7.0", started_at="2026-11-21T10:00:00Z", seconds=1.0, statements_per_s=1.0,
        threads_running_max=None, unclassified=0, masked=False, classes=(),
    )  # fmt: skip
    monkeypatch.setenv(KEY, new_key())
    file = tmp_path / "capture"
    file.write_bytes(seal(taken.model_dump_json(by_alias=True), key_from(os.environ)))
    assert read_capture(file) == taken
    monkeypatch.setenv(KEY, new_key())
    with pytest.raises(UsageError, match="cannot be opened"):
        read_capture(file)
