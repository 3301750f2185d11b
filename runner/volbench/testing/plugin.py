"""The pytest plugin: fixtures `emulated_volume`, `mysql_on` and `volbench_run`, the marker `volbench`.

It is loaded in each pytest session of an environment with volbench, so it imports nothing before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from volbench.testing import MeasuredRun, MountedVolume, VolumeMySqlContainer

FIXTURES = frozenset({"emulated_volume", "mysql_on", "volbench_run"})
MARKER = "volbench"
REQUIRE = "--volbench-require"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for pipelines, where a skipped test would look like a passed one."""
    group = parser.getgroup("volbench", "slow and failing disks (volbench)")
    group.addoption(
        REQUIRE,
        action="store_true",
        help="fail tests instead of skipping them where root, FUSE, Docker or an image is missing",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for --strict-markers and `pytest --markers`."""
    config.addinivalue_line(
        "markers", f"{MARKER}: uses an emulated volume or a run of volbench; set by its fixtures, for `-m`"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use one of the fixtures, also by another fixture."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(MARKER)


@pytest.fixture
def emulated_volume(request: pytest.FixtureRequest) -> Iterator[Callable[..., MountedVolume]]:
    """Return a function that mounts an emulated volume for this test: `emulated_volume("ebs-gp2?size=50GiB")`."""
    with ExitStack() as volumes:

        def mount(spec: str, **options: Any) -> MountedVolume:
            with missing_prerequisites_skip(request.config):
                from volbench.testing.volumes import emulated_volume  # noqa: PLC0415

                return volumes.enter_context(emulated_volume(spec, **options))

        yield mount


@pytest.fixture
def mysql_on(
    request: pytest.FixtureRequest,
    emulated_volume: Callable[..., MountedVolume],  # noqa: ARG001 - its volumes end after these servers
) -> Iterator[Callable[..., VolumeMySqlContainer]]:
    """Return a function that starts a server on a volume: `mysql_on(volume, image="mysql:8.4")`."""
    with ExitStack() as servers:

        def start(volume: MountedVolume, image: str | None = None, **options: Any) -> VolumeMySqlContainer:
            with missing_prerequisites_skip(request.config):
                from volbench.testing.mysql import mysql_on  # noqa: PLC0415

                return servers.enter_context(mysql_on(volume, image, **options))

        yield start


@pytest.fixture
def volbench_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., MeasuredRun]:
    """Return a function that runs a suite: `volbench_run("suites/quick.yaml", volumes={"a": "path:/mnt/a"})`."""

    def run(suite: Any, volumes: Any, **options: Any) -> MeasuredRun:
        with missing_prerequisites_skip(request.config):
            from volbench.testing.runs import run_suite  # noqa: PLC0415

            options.setdefault("results", tmp_path_factory.mktemp("volbench-results"))
            return run_suite(suite, volumes, **options)

    return run


@contextmanager
def missing_prerequisites_skip(config: pytest.Config) -> Iterator[None]:
    """Turn a missing prerequisite into a skip with its reason; into a failure by --volbench-require."""
    from volbench.core.base.extras import install_command  # noqa: PLC0415
    from volbench.errors import MissingPrerequisite  # noqa: PLC0415

    try:
        yield
    except MissingPrerequisite as error:
        reason = str(error)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "testcontainers":
            raise
        reason = f"the package testcontainers is not installed: {install_command('pytest')}"
    else:
        return
    if config.getoption(REQUIRE):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
