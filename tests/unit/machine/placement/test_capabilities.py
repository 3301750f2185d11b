"""Questions to the machine: bounded, with evidence, never an exception."""

import os
import sys
from pathlib import Path

import machine
import pytest

from volbench.machine.placement import capabilities


def fake_program(directory: Path, name: str, script: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all of PATH."""
    monkeypatch.setattr(capabilities, "SEARCH_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_answer_keeps_code_and_last_line() -> None:
    answer = capabilities.ask(
        [sys.executable, "-c", "import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)"]
    )
    assert (answer.code, answer.last_line) == (3, "why")


def test_question_without_answer_in_time_has_no_code() -> None:
    answer = capabilities.ask(["sleep", "30"], timeout_s=0.2)
    assert answer.code is None
    assert "0.2 s" in answer.output


def test_program_that_cannot_be_started_has_no_code() -> None:
    assert capabilities.ask(["/no/such/program"]).code is None


def test_program_is_found_by_any_of_its_names(tmp_path: Path) -> None:
    fake_program(tmp_path, "mariadbd", "true")
    program = capabilities.find_program("mysqld", "mariadbd", path=str(tmp_path))
    assert (program.present, program.evidence) == (True, str(tmp_path / "mariadbd"))


def test_missing_program_names_the_package_that_brings_it(tmp_path: Path) -> None:
    program = capabilities.find_program("pt-summary", package="percona-toolkit", path=str(tmp_path))
    assert not program.present
    assert program.remedy.endswith("percona-toolkit")


def test_no_docker_command(only: Path) -> None:
    result = capabilities.docker_engine()
    assert (result.present, result.remedy) == (False, "make engine")


def test_engine_that_answers_gives_its_version(only: Path) -> None:
    fake_program(only, "docker", "echo 20.10.24")
    assert capabilities.docker_engine() == capabilities.Means(
        name="docker", present=True, evidence="engine 20.10.24"
    )


def test_engine_that_is_down_says_why(only: Path) -> None:
    fake_program(only, "docker", "echo; echo Cannot connect to the Docker daemon >&2; exit 1")
    result = capabilities.docker_engine()
    assert (result.present, result.evidence) == (False, "Cannot connect to the Docker daemon")


def test_engine_that_refuses_is_mended_by_the_group_not_by_another_engine(only: Path) -> None:
    fake_program(only, "docker", "echo permission denied while trying to connect >&2; exit 1")
    assert "usermod" in capabilities.docker_engine().remedy


def test_local_server_needs_sysbench_too(only: Path) -> None:
    fake_program(only, "mysqld", "echo mysqld Ver 9.7.4")
    assert "sysbench" in capabilities.local_server_tools().evidence
    fake_program(only, "sysbench", "true")
    assert capabilities.local_server_tools().present


@pytest.mark.parametrize(
    ("text", "present"), [("nodev\tnfs\nnodev\tnfs4\n", True), ("nodev\tnfsd\n\text4\n", False)]
)
def test_nfs_client_is_what_the_kernel_lists(tmp_path: Path, text: str, present: bool) -> None:
    (tmp_path / "filesystems").write_text(text)
    assert capabilities.nfs_client(tmp_path / "filesystems").present is present


@pytest.mark.skipif(os.geteuid() != 0, reason="asks about root's rights")
def test_root_has_rights() -> None:
    assert capabilities.root_rights().present


def test_every_answer_on_this_machine_has_evidence_and_every_lack_a_mend() -> None:
    for question in machine.QUESTIONS.values():
        result = question()
        assert result.evidence
        assert result.present or result.remedy


def test_require_names_means_and_refuses_other_words() -> None:
    assert machine.parse_require(" docker, browser ,") == {"docker", "browser"}
    assert machine.parse_require("") == frozenset()
    with pytest.raises(ValueError, match="dokcer"):
        machine.parse_require("dokcer")
