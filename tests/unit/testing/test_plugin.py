"""Missing prerequisites skip a test with the reason, or fail it where a pipeline asks for them."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import create_autospec

import pytest

from volbench.errors import MissingPrerequisite, UsageError
from volbench.testing import emulated_volume
from volbench.testing.mysql import check_account
from volbench.testing.plugin import missing_prerequisites_skip


def config(*, required: bool) -> pytest.Config:
    """A configuration with or without --volbench-require."""
    made = create_autospec(pytest.Config, instance=True)
    made.getoption.side_effect = {"--volbench-require": required}.__getitem__
    return made


def test_what_is_missing_is_the_reason_of_the_skip() -> None:
    with (
        pytest.raises(pytest.skip.Exception, match="missing: root"),
        missing_prerequisites_skip(config(required=False)),
    ):
        raise MissingPrerequisite("this machine cannot run emulated volumes; missing: root")


def test_a_pipeline_that_requires_it_fails() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="missing: root"),
        missing_prerequisites_skip(config(required=True)),
    ):
        raise MissingPrerequisite("this machine cannot run emulated volumes; missing: root")


def test_the_missing_extra_is_named() -> None:
    with (
        pytest.raises(pytest.skip.Exception, match=r"pip install .*\[pytest\]"),
        missing_prerequisites_skip(config(required=False)),
    ):
        raise ModuleNotFoundError("No module named 'testcontainers'", name="testcontainers.core")


def test_another_missing_module_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError), missing_prerequisites_skip(config(required=False)):
        raise ModuleNotFoundError("No module named 'x'", name="x")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ebs-gp22", "ebs-gp2"),
        ("ebs-gp2?siez=50GiB", "siz"),
        ("ebs-gp2?dir=/x", "directories of their own"),
    ],
)
def test_a_wrong_spec_is_refused_before_anything_is_made(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message), emulated_volume(spec):
        pass


def test_an_option_that_would_be_ignored_is_refused() -> None:
    """MySqlContainer's seed is read by an entrypoint that is not called."""
    with pytest.raises(UsageError, match="'seed'"):
        check_account({"seed": "x"})
    with pytest.raises(UsageError, match="line break"):
        check_account({"password": "a\nb"})


def test_the_plugin_alone_imports_neither_the_engine_nor_containers() -> None:
    """It is loaded by each pytest session of its environment."""
    code = "import sys, volbench.testing.plugin; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules = set(done.stdout.split())
    assert modules & {"docker", "testcontainers", "numpy", "pyarrow", "pydantic", "mysql.connector"} == set()
