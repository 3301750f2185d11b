"""Data are copied and servers started at once on emulated volumes, where that leaves nothing behind."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.cell import CellPlaces, CellSpec, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.layout import ComponentPlaces, EmulatedSpec
from volbench.core.records.steps.idle import IdleStep
from volbench.errors import StepFailed
from volbench.measure.execute.cell import owned_cell
from volbench.measure.execute.cell.components import preparing
from volbench.measure.execute.cell.owned_cell import OwnedCell
from volbench.measure.execute.cell.recorder import recording

PLAIN: dict[str, Any] = {"limits": [{"name": "volume.iops", "credits": False}], "first_touch": None}
WITH_CREDITS = {**PLAIN, "limits": [*PLAIN["limits"], {"name": "volume.credits", "credits": True}]}
FROM_SNAPSHOT = {**PLAIN, "first_touch": {"chunk_bytes": 524288}}
AT_ONCE = ["parameters", "hurry True", "hurry False"]


class Daemon:
    """The control socket of an emulated volume; `log` has what it was asked."""

    def __init__(self, path: Path, parameters: dict[str, Any], log: list[str]) -> None:
        self.path, self._parameters, self._log = path, parameters, log
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                with self._listener.accept()[0] as stream:
                    request = json.loads(stream.makefile().readline())
                    self._log.append(" ".join(str(value) for value in request.values()))
                    stream.sendall(json.dumps({"ok": True, "parameters": self._parameters}).encode() + b"\n")

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("d")  # a short path: it holds sockets


@pytest.fixture
def daemon(directory: Path, log: list[str], request: pytest.FixtureRequest) -> Iterator[Daemon]:
    result = Daemon(directory / "s", getattr(request, "param", PLAIN), log)
    yield result
    result.close()


def places(directory: Path, **more: object) -> CellPlaces:
    names = ("data_dir", "volume_dir", "control_dir", "template_dir", "scratch_dir")
    return CellPlaces.model_validate({name: str(directory / name) for name in names} | more)


def cell(paths: CellPlaces, *, emulated: bool = True) -> CellSpec:
    return CellSpec.model_validate(
        {
            "run_id": "20260101T000000Z-s-0a1b2c",
            "cell_id": "01-a",
            "suite": "s",
            "volume": "a",
            "block": 0,
            "repeat": 1,
            "seed": 1,
            "server": ServerSpec(),
            "dataset": DatasetSpec(),
            "steps": (IdleStep(name="idle", duration_s=1),),
            "paths": paths,
            "emulated": EmulatedSpec(profile="ebs-gp3", parameters={}) if emulated else None,
        }
    )


@pytest.mark.parametrize(
    ("daemon", "asked"),
    [(PLAIN, AT_ONCE), (WITH_CREDITS, ["parameters"]), (FROM_SNAPSHOT, ["parameters"])],
    indirect=["daemon"],
    ids=["plain", "credits", "snapshot"],
)
def test_a_model_that_keeps_state_sees_the_copy(
    daemon: Daemon, asked: list[str], directory: Path, log: list[str]
) -> None:
    paths = places(directory, emulator_socket=str(daemon.path))
    with preparing(cell(paths), paths):
        assert log == asked[:2]
    assert log == asked


def test_a_volume_of_a_layout_is_asked_too(daemon: Daemon, directory: Path, log: list[str]) -> None:
    component = ComponentPlaces(
        name="redo",
        roles=("redo",),
        volume_dir=str(directory / "redo"),
        emulated=EmulatedSpec(profile="ebs-gp3", parameters={}),
        emulator_socket=str(daemon.path),
    )
    paths = places(directory, layout=(component,))
    with preparing(cell(paths, emulated=False), paths):
        pass
    assert log == AT_ONCE


def test_a_volume_whose_daemon_cannot_be_asked_takes_its_time(directory: Path) -> None:
    paths = places(directory, emulator_socket=str(directory / "gone"))
    with preparing(cell(paths), paths):
        pass


class FailingServer:
    """Logs its start; `fails` makes it fail."""

    def __init__(self, log: list[str], *, fails: bool) -> None:
        self._log, self._fails = log, fails

    def start(self) -> None:
        self._log.append("start")
        if self._fails:
            raise StepFailed("no start")


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_in_force_again_when_the_server_has_started(
    daemon: Daemon, directory: Path, log: list[str], monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    monkeypatch.setattr(owned_cell, "quiet_duration_s", lambda *_, **__: 0.0)
    monkeypatch.setattr(owned_cell, "seed", lambda *_, **__: log.append("seed"))
    paths = places(directory, emulator_socket=str(daemon.path))
    out = directory / "out"
    out.mkdir()
    with recording(out) as record:
        run = OwnedCell(cell(paths), paths, out, record)
        run.server = FailingServer(log, fails=fails)  # type: ignore[assignment]
        with suppress(StepFailed):
            run.start()
    assert log == ["parameters", "hurry True", "seed", "start", "hurry False"]
    assert [phase.name for phase in run.builder.result().phases] == ["quiet", "seed", "start"]
