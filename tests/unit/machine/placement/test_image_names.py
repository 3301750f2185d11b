"""Images are named by what is in them."""

from pathlib import Path

import pytest

from volbench.machine.placement.docker.image_names import (
    checkout_root,
    content_hash,
    parse_server_image,
    pick_server_image,
    tools_image,
)

HERE = (
    "volbench/mysql:9.7",
    "mysql:8.4",
    "mysql:8.0.40-debian",
    "mariadb:11.8",
    "volbench/tools:0.2.0",
    "mysql:latest",
    "<none>:<none>",
)


@pytest.mark.parametrize(
    ("flavor", "version", "name"),
    [
        ("mysql", None, "volbench/mysql:9.7"),
        ("mysql", "8.4", "mysql:8.4"),
        ("mysql", "8", "mysql:8.4"),
        ("mysql", "8.0", "mysql:8.0.40-debian"),
        ("mariadb", None, "mariadb:11.8"),
        ("mariadb", "10.11", None),
    ],
)
def test_newest_image_of_the_wanted_series_is_picked(flavor: str, version: str | None, name: str | None) -> None:
    picked = pick_server_image(HERE, flavor, version)
    assert (picked.name if picked else None) == name


def test_versions_compare_as_numbers() -> None:
    picked = pick_server_image(["mysql:9.10", "mysql:9.7"], "mysql")
    assert picked is not None
    assert picked.version == (9, 10)


@pytest.mark.parametrize(
    ("name", "flavor"),
    [
        ("localhost/volbench/mariadb:11.8", "mariadb"),
        ("docker.io/library/mysql:8.4", "mysql"),
        ("docker.io/percona/percona-server:8.4", "mysql"),
    ],
)
def test_podman_lists_images_with_a_host(name: str, flavor: str) -> None:
    picked = pick_server_image([name], flavor)
    assert picked is not None
    assert picked.name == name
    assert pick_server_image([f"reg.example/{name}"], flavor) is None


@pytest.mark.parametrize("name", ["mysql", "mysql:latest", "other/mysql:8.4", "", ":"])
def test_image_without_known_name_and_version_is_no_server(name: str) -> None:
    assert parse_server_image(name) is None


def test_hash_follows_names_and_bytes_but_no_caches(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    before = content_hash(tmp_path, ["code"])
    (tmp_path / "code" / "__pycache__").mkdir()
    (tmp_path / "code" / "__pycache__" / "a.pyc").write_text("x")
    assert content_hash(tmp_path, ["code"]) == before
    (tmp_path / "code" / "a.py").rename(tmp_path / "code" / "b.py")
    renamed = content_hash(tmp_path, ["code"])
    (tmp_path / "code" / "b.py").write_text("2")
    assert len({before, renamed, content_hash(tmp_path, ["code"]), content_hash(tmp_path, ["code"], "more")}) == 4


def test_tools_image_is_this_checkouts_unless_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkout_root() is not None
    assert tools_image().startswith("volbench/tools:")
    monkeypatch.setenv("VOLBENCH_TOOLS_IMAGE", "registry.example/tools:7")
    assert tools_image() == "registry.example/tools:7"
