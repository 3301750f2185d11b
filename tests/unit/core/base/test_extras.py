"""Commands whose packages are not installed say which extra has them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from volbench.core.base import extras
from volbench.core.base.extras import EXTRA_OF, PURPOSES, missing_extra
from volbench.errors import EXIT_ENVIRONMENT

PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
EXTERNAL = (
    "boto3",
    "botocore",
    "cryptography",
    "dateutil",
    "duckdb",
    "fsspec",
    "jsonschema",
    "kubernetes",
    "mysql",
    "pandas",
    "sqlglot",
)
"""Modules that the core is read without."""


def without(*packages: str) -> str:
    """A program's beginning that makes packages look absent."""
    return f"import sys\nfor name in {packages!r}: sys.modules[name] = None\n"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["query", "SELECT 1", "--out", "."], "query"),
        (["validate", "plan.yaml"], "validate"),
        (["capture", "out"], "server"),
        (["k8s", "list"], "kubernetes"),
    ],
)
def test_a_command_without_its_package_names_the_extra_to_install(arguments: list[str], extra: str) -> None:
    """One message, exit code 3, no traceback."""
    package = next(package for package, name in EXTRA_OF.items() if name == extra)
    code = f"{without(package)}sys.argv = ['volbench', *{arguments!r}]\nfrom volbench.cli.main import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == EXIT_ENVIRONMENT, done.stderr
    assert f"-m pip install '{Path.cwd()}[{extra}]'" in done.stderr, "the checkout: no index has the name"
    assert "Traceback" not in done.stderr


def test_only_the_commands_of_extras_need_their_packages() -> None:
    """All other modules of the command line, and the Python interface, are imported without any of them."""
    code = (
        f"{without(*EXTERNAL)}"
        "from importlib import import_module\n"
        "from volbench.cli.main import COMMANDS\n"
        "import volbench.api\n"
        "for name in COMMANDS:\n"
        "    try:\n"
        "        import_module(f'volbench.cli.{COMMANDS[name]}')\n"
        "    except ModuleNotFoundError as error:\n"
        "        print(name, error.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split("\n")[:-1] == [
        "validate mysql.connector",
        "capture mysql.connector",
        "observe mysql.connector",
        "query duckdb",
    ]


def test_every_extra_has_a_purpose_and_its_packages() -> None:
    """An extra that another change adds to pyproject.toml is explained too."""
    assert set(EXTRAS) <= set(PURPOSES)
    assert set(EXTRA_OF.values()) == set(PURPOSES)
    assert not {name for name in EXTERNAL if any(name in entry for entry in PROJECT["dependencies"])}


def test_another_import_error_is_no_missing_extra() -> None:
    """A fault of volbench stays one."""
    assert missing_extra(ModuleNotFoundError("No module named 'volbench.nothing'", name="volbench.nothing")) is None
    assert missing_extra(ModuleNotFoundError("no name")) is None


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        (
            {"url": "file:///opt/my%20wheels/volbench-0.2.0-py3-none-any.whl", "archive_info": {}},
            "my wheels/volbench",
        ),
        ({"url": "file:///gone/volbench-0.2.0-py3-none-any.whl"}, "'WHEEL[query]'"),
        ({"url": "https://example.invalid/volbench-0.2.0-py3-none-any.whl"}, "'volbench @ https://example.invalid"),
        (None, "'WHEEL[query]'"),
        ("damaged", "'WHEEL[query]'"),
    ],
)
def test_an_installed_package_names_what_it_was_installed_from(
    recorded: object, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "my wheels" / "volbench-0.2.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    text = json.dumps(recorded).replace("file:///opt", f"file://{tmp_path}") if recorded else None

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return "{" if recorded == "damaged" else text

    monkeypatch.setattr(extras, "distribution", lambda _: Installed())
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "a/b/c/d/extras.py"))
    assert command in extras.install_command("query")
