"""Servers under the supervisor, on each target, with the template of their data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised_engine import DATASET, LOCAL_FLAVOR, Engine, prepare

from volbench.engine.template import Template


@pytest.fixture(
    scope="session",
    params=[pytest.param(False, marks=pytest.mark.mysqld), pytest.param(True, marks=pytest.mark.docker)],
    ids=["local", "docker"],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    base = Path(tempfile.mkdtemp(prefix="vb"))
    (base / "t").mkdir()
    yield Engine(in_docker=request.param, base=base, flavor="mysql" if request.param else LOCAL_FLAVOR)
    shutil.rmtree(base)


@pytest.fixture
def local(engine: Engine) -> Engine:
    """What does not depend on where the server is, once."""
    if engine.in_docker:
        pytest.skip("does not apply: tried with a local server")
    return engine


@pytest.fixture(scope="session")
def template(engine: Engine) -> Template:
    with engine.bench() as bench:
        return prepare(bench, DATASET)[0]
