"""SPECs: each documented form is understood, and each mistake is told with what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.profile.spec import KINDS, parse_volume
from volbench.errors import EXIT_USAGE, UsageError


@pytest.mark.parametrize(
    ("text", "kind", "location", "options"),
    [
        ("a=path:/mnt/x", "path", "/mnt/x", {}),
        ("a=/mnt/x", "path", "/mnt/x", {}),
        (
            "a=emulated:ebs-gp2?size=50GiB&dir=/var/tmp/x",
            "emulated",
            "ebs-gp2",
            {"size": "50GiB", "dir": "/var/tmp/x"},
        ),
        ("a=docker-volume:data_1", "docker-volume", "data_1", {}),
        ("a=docker-volume:d?create=yes&o=size=1g", "docker-volume", "d", {"create": "yes", "o": "size=1g"}),
        ("a=nfs:server:/export?vers=4.1,async", "nfs", "server:/export", {"options": "vers=4.1,async"}),
        ("a=nfs:[fe80::1]:/export", "nfs", "[fe80::1]:/export", {}),
        ("a=pvc:mysql-data", "pvc", "mysql-data", {}),
        ("a=storage-class:gp3?size=100Gi", "storage-class", "gp3", {"size": "100Gi"}),
    ],
)
def test_documented_forms(text: str, kind: str, location: str, options: dict[str, str]) -> None:
    """Every form of the documentation becomes its kind, place and options."""
    spec = parse_volume(text)
    assert (spec.name, spec.kind, spec.location, spec.options) == ("a", kind, location, options)
    assert spec.text == text.removeprefix("a=")


def test_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run can be resumed from another working directory."""
    monkeypatch.chdir(tmp_path)
    assert parse_volume("a=path:x").location == str(tmp_path / "x")


def test_name_given_beside() -> None:
    """With a name of its own, the text is the SPEC alone, whatever it holds."""
    spec = parse_volume("docker-volume:d?create=yes", name="slow")
    assert (spec.name, spec.options) == ("slow", {"create": "yes"})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a=pth:/mnt/x", "perhaps you meant 'path'"),
        ("a=dockervolume:x", "perhaps you meant 'docker-volume'"),
        ("a=qqq:x", "known: path,"),
        ("a=storage-class:gp3?sise=1Gi", "perhaps you meant 'size'"),
        ("a=docker-volume:x?creat=yes", "perhaps you meant 'create'"),
        ("a=pvc:x?size=1", "this kind has no options"),
        ("/mnt/x", "for instance a=/mnt/x"),
        ("path:/mnt/x", "for instance a=path:/mnt/x"),
        ("a=", "other kinds: path"),
        ("a=path:", "for instance path:/mnt/x"),
        ("a=nfs:server", "for instance nfs:server:/export"),
        ("a=nfs::/export", "for instance nfs:server:/export"),
        ("a=pvc:Not_A_Name", "for instance pvc:NAME"),
        ("a=storage-class:gp3?size=much", "for instance storage-class:NAME?size=100Gi"),
        ("a=storage-class:gp3?size=", "size=VALUE"),
        ("a=storage-class:gp3?size=1Gi&size=2Gi", "write it once"),
        ("a=docker-volume:x?create=maybe", "for instance docker-volume:NAME"),
        ("a b=path:/mnt/x", "letters, digits"),
    ],
)
def test_mistakes(text: str, hint: str) -> None:
    """A mistake is a usage error that quotes the text and says what to write."""
    with pytest.raises(UsageError) as caught:
        parse_volume(text)
    assert hint in str(caught.value)
    assert repr(text) in str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE


def test_examples_are_valid() -> None:
    """What a message shows as an example can be typed."""
    for kind, form in KINDS.items():
        if kind not in ("pvc", "storage-class"):  # their NAME is to be replaced: Kubernetes has no capitals
            assert parse_volume(form.example, name="a").kind == kind
