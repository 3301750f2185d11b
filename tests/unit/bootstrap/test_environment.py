"""The index that uv asks is the one pip is configured for; lock files name none."""

from pathlib import Path

import pytest

from bootstrap.environment import DEVELOPMENT_LOCK, RUNTIME_LOCK, UV_LOCK, stamp_of, uv_settings

ROOT = Path(__file__).resolve().parents[3]


def test_pip_settings_are_translated() -> None:
    config = "global.index-url='https://mirror.example/simple'\nglobal.cert='/etc/ca.pem'\nglobal.timeout='60'\n"
    assert uv_settings(config, {}) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "SSL_CERT_FILE": "/etc/ca.pem",
    }


def test_environment_of_pip_wins_over_its_files() -> None:
    config = "global.index-url='https://file.example/simple'\n:env:.index-url='https://env.example/simple'\n"
    assert uv_settings(config, {})["UV_DEFAULT_INDEX"] == "https://env.example/simple"


def test_what_uv_is_told_already_stays() -> None:
    config = ":env:.index-url='https://env.example/simple'\n"
    assert uv_settings(config, {"UV_DEFAULT_INDEX": "https://uv.example/simple"}) == {}


def test_find_links_that_do_not_exist_are_left_out(tmp_path: Path) -> None:
    assert uv_settings(f"global.find-links='{tmp_path}/none'\n", {}) == {}
    links = f"{tmp_path} {tmp_path}/none https://wheels.example/"
    assert uv_settings(f"global.find-links='{links}'\n", {}) == {
        "UV_FIND_LINKS": f"{tmp_path},https://wheels.example/"
    }


def test_several_extra_indexes_become_several() -> None:
    config = "global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'\n"
    assert uv_settings(config, {}) == {"UV_INDEX": "https://a.example/simple https://b.example/simple"}


@pytest.mark.parametrize("lock", [RUNTIME_LOCK, DEVELOPMENT_LOCK, UV_LOCK])
def test_locks_name_no_address_and_hash_every_package(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    pins = [line for line in text.splitlines() if "==" in line and not line.lstrip().startswith("#")]
    assert pins
    assert all(line.endswith("\\") for line in pins), "every pin goes on with its hashes"


def test_stamp_changes_with_lock_and_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("a")
    (tmp_path / RUNTIME_LOCK).write_text("x==1")
    before = stamp_of(tmp_path, RUNTIME_LOCK)
    assert stamp_of(tmp_path, RUNTIME_LOCK) == before
    (tmp_path / RUNTIME_LOCK).write_text("x==2")
    assert stamp_of(tmp_path, RUNTIME_LOCK) != before
