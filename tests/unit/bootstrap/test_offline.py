"""The base image without a registry: the machine's own archive, a name by content."""

import shutil
from pathlib import Path

import pytest

from bootstrap.images import parse_server_version
from bootstrap.offline import ROOTFS, base_name, parse_mirror

ROOT = Path(__file__).resolve().parents[3]

TARGETS = """\
https://packages.example/apt|Example|stable
http://mirror.example/debian/|Debian|bookworm-updates
http://mirror.example/debian-security/|Debian|bookworm-security
http://mirror.example/debian/|Debian|bookworm
"""


def test_mirror_is_the_main_archive_of_debian_itself() -> None:
    assert parse_mirror(TARGETS) == "http://mirror.example/debian"


@pytest.mark.parametrize(
    "text", ["", "nonsense", "file:/srv/debian|Debian|bookworm", "http://u.example/ubuntu|Ubuntu|noble"]
)
def test_without_a_debian_archive_the_choice_is_left_to_debootstrap(text: str) -> None:
    assert parse_mirror(text) is None


def test_base_name_changes_with_what_goes_into_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ROOTFS, tmp_path / ROOTFS)
    before = base_name(tmp_path)
    assert before == base_name(ROOT)
    (tmp_path / ROOTFS / "etc" / "more").write_text("x")
    assert base_name(tmp_path) != before


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", "9.7"),
        ("/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)", "8.4"),
        ("mariadbd  Ver 11.8.9-MariaDB-4 from Debian for debian-linux-gnu on x86_64", "11.8"),
        ("mysqld: not found", None),
    ],
)
def test_server_version_is_the_series(text: str, version: str | None) -> None:
    assert parse_server_version(text) == version
