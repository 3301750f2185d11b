"""Servers under the supervisor, on each target, with the template of their data."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_container import sysbench_of_tools_image
from supervised_engine import DATASET, DOCKER, LOCAL, LOCAL_FLAVOR, Engine, prepare

from volbench.machine.engine.template import Template


@pytest.fixture(scope="session", params=[LOCAL, DOCKER])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    base = Path(tempfile.mkdtemp(prefix="vb"))
    (base / "t").mkdir()
    flavor = "mysql" if request.param else LOCAL_FLAVOR
    with sysbench_of_tools_image(base) if request.param else contextlib.nullcontext() as programs:
        yield Engine(in_docker=request.param, base=base, flavor=flavor, programs=programs)
    shutil.rmtree(base)


@pytest.fixture(scope="session")
def template(engine: Engine) -> Template:
    with engine.bench() as bench:
        return prepare(bench, DATASET)[0]
