"""The command line: exit codes, one clear message on stderr, pure JSON on stdout, nothing touched by `plan`."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import QUICK, ROOT, TIMEOUT_S, message_of, volbench, volbench_process
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run
from typer.testing import CliRunner

from volbench.cli.main import app, main
from volbench.cli.runs import query
from volbench.errors import (
    IncomparableRuns,
    MissingPrerequisite,
    Refused,
    RunUnreadable,
    StepFailed,
    UsageError,
    VolbenchError,
)
from volbench.results.store.run_directory import RunDirectory

SUITES = [path for path in sorted((ROOT / "suites").glob("*.yaml")) if "\nsteps:" in path.read_text()]


@pytest.fixture(scope="module", name="run")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two volumes, five cells each, one load; b is faster."""
    steps = (OLTP.model_copy(update={"duration_s": 12.0}),)
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=1.5))
    return build_run(tmp_path_factory.mktemp("results"), Synthetic(volumes=volumes, steps=steps))


def commands() -> dict[str, Any]:
    """Every command with its parameters, groups resolved: `suite check` and so on."""
    result = {}

    def walk(command: Any, name: str) -> None:
        if not hasattr(command, "list_commands"):
            result[name] = command
            return
        context = typer.Context(command)
        for child in command.list_commands(context):
            walk(command.get_command(context, child), f"{name} {child}".strip())

    walk(typer.main.get_command(app), "")
    return result


@pytest.mark.parametrize("name", commands())
def test_help_of_every_command_mentions_each_of_its_options(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert commands()[name].help
    for parameter in commands()[name].params:
        options = [option for option in parameter.opts if option.startswith("--")]
        assert all(option in result.output for option in options), parameter.name
        assert parameter.name == "help" or parameter.help, f"{name}: {parameter.name} says nothing of itself"


def test_a_command_imports_only_what_it_needs() -> None:
    """Every cell starts several processes: none of them may pay for the other commands."""
    code = (
        "import sys\nfrom volbench.cli.main import app\n"
        "app(['cell', '--help'], standalone_mode=False)\n"
        "print(sorted({'docker', 'sqlglot', 'kubernetes'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_of_the_program_names_every_command_that_people_need() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    for name in ("run", "plan", "resume", "report", "compare", "query", "doctor", "suite"):
        assert re.search(rf"^  {name} ", output, flags=re.MULTILINE), name
    assert not re.search(r"^  cell ", output, flags=re.MULTILINE)


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_every_shipped_suite_is_well_formed(path: Path) -> None:
    result = CliRunner().invoke(app, ["suite", "check", str(path)])
    assert result.exit_code == 0
    assert result.output == f"{path}: suite {path.stem} is well formed\n"


def test_the_schema_and_the_documentation_are_printed_as_shipped() -> None:
    assert json.loads(CliRunner().invoke(app, ["suite", "schema"]).output) == json.loads(
        (ROOT / "suites/suite.schema.json").read_text()
    )
    assert CliRunner().invoke(app, ["suite", "docs"]).output == (ROOT / "suites/README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "pieces"),
    [
        (["plan", "quik.yaml"], 2, ["quik.yaml", "no such suite file"]),
        (["plan", QUICK, "--target", "dokker", "--volume", "a=path:/x"], 2, ["dokker", "docker"]),
        (["plan", QUICK, "--target", "kubernets", "--volume", "a=path:/x"], 2, ["kubernets", "kubernetes"]),
        (["plan", QUICK, "--target", "local"], 2, ["the run has no volume", "--volume a=path:/mnt/a"]),
        (["plan", QUICK, "--target", "local", "--volume", "a=pth:/x"], 2, ["'pth'", "perhaps you meant 'path'"]),
        (["plan", QUICK, "--target", "local", "--volume", "/x"], 2, ["NAME=SPEC"]),
        (
            ["plan", QUICK, "--target", "local", "--volume", "a=path:/x", "--volume", "a=path:/y"],
            2,
            ["two volumes have the name 'a'"],
        ),
        (["plan", QUICK, "--target", "local", "--set", "repeat=3"], 2, ["--set repeat=3", "'repeats'"]),
        (["run", QUICK, "--budget", "10 parsecs"], 2, ["--budget", "duration such as 30s"]),
        (["run", QUICK, "--budget", "0s"], 2, ["--budget", "more than 0 s"]),
        (["run", QUICK, "--budget", "10m", "--until", "all_cells"], 2, ["--budget needs --until decided"]),
        (
            [
                "run",
                QUICK,
                "--budget",
                "10m",
                "--target",
                "local",
                "--volume",
                "a=path:/tmp",
                "--set",
                "comparison.until=all_cells",
            ],
            2,
            ["--budget needs comparison.until=decided"],
        ),
        (["suite", "check", "pyproject.toml"], 2, ["pyproject.toml"]),
        (["report", "nowhere"], 2, ["nowhere"]),
        (["resume", "nowhere"], 2, ["nowhere"]),
        (["compare", "nowhere"], 2, ["nowhere"]),
        (["query", "SELEC 1", "--out", "nowhere"], 2, []),
    ],
    ids=lambda value: " ".join(value).replace(str(ROOT), "") if isinstance(value, list) else None,
)
def test_a_mistake_is_told_once_with_place_and_nearest_match(
    arguments: list[str], code: int, pieces: list[str]
) -> None:
    ended = CliRunner().invoke(app, arguments)
    assert isinstance(ended.exception, VolbenchError), ended.output
    assert ended.exception.exit_code == code
    assert all(piece in str(ended.exception) for piece in pieces), str(ended.exception)


def test_a_mistake_is_one_message_on_stderr() -> None:
    message = message_of(volbench_process("plan", QUICK, "--target", "local", "--volume", "a=pth:/x"), 2)
    assert "next step: perhaps you meant 'path'" in message


@pytest.mark.parametrize(
    "arguments", [["runn"], ["plan"], ["plan", QUICK, "--repeats", "3"], ["report", "x", "--format", "pdf"]]
)
def test_a_command_line_that_cannot_be_read_is_exit_code_2(arguments: list[str]) -> None:
    ended = volbench(*arguments)
    assert ended.returncode == 2
    assert "Usage:" in ended.stderr
    assert ended.stdout == ""


def test_a_misspelt_option_names_the_nearest() -> None:
    assert "--volume" in volbench("plan", QUICK, "--volum", "a=path:/x").stderr


def test_plan_touches_nothing(tmp_path: Path) -> None:
    """Neither the working directory, nor the volumes, nor the cache, nor results/."""
    volumes = [f"{name}=path:{tmp_path / name}" for name in ("a", "b")]
    for name in ("a", "b", "home"):
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.rglob("*"))
    ended = volbench(
        "plan",
        QUICK,
        "--target",
        "local",
        *(piece for spec in volumes for piece in ("--volume", spec)),
        cwd=tmp_path,
        environment={"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")},
    )
    assert ended.returncode == 0, ended.stderr
    assert "16 cells (8 per volume)" in ended.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_prints_pure_json(tmp_path: Path) -> None:
    planned = json.loads(
        volbench(
            "plan", QUICK, "--target", "local", "--volume", f"a=path:{tmp_path}", "--set", "repeats=3", "--json"
        ).stdout
    )
    assert [cell["volume"] for cell in planned["run"]["cells"]] == ["a"] * 3
    assert planned["cost"]["cells"] == 3


def test_run_refuses_a_data_directory_of_others(tmp_path: Path) -> None:
    """Exit code 4, and every file is still there."""
    (tmp_path / "ibdata1").write_bytes(b"precious")
    (tmp_path / "mysql").mkdir()
    ended = volbench(
        "run",
        QUICK,
        "--target",
        "local",
        "--volume",
        f"a=path:{tmp_path}",
        "--out",
        str(tmp_path / "results"),
        "--yes",
        "--json",
        environment={"XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert ended.returncode == 4, ended.stderr
    assert ended.stdout == ""
    assert (tmp_path / "ibdata1").read_bytes() == b"precious"


def test_what_the_environment_lacks_is_exit_code_3(tmp_path: Path) -> None:
    """An engine that is not there, with the next step."""
    ended = volbench_process(
        "run",
        QUICK,
        "--target",
        "docker",
        "--volume",
        f"a=path:{tmp_path}",
        "--out",
        str(tmp_path / "results"),
        "--yes",
        environment={"DOCKER_HOST": f"unix://{tmp_path}/no.sock"},
    )
    assert ended.returncode == 3, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "next step" in ended.stderr


def test_a_directory_without_our_marker_is_not_erased(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    message_of(volbench("cell", "erase", str(tmp_path / "other")), 4)
    assert (tmp_path / "other" / "file").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (RunUnreadable("x"), 2),
        (MissingPrerequisite("x"), 3),
        (Refused("x"), 4),
        (IncomparableRuns("x"), 4),
        (StepFailed("x"), 5),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_every_failure_has_the_exit_code_of_the_documentation(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(query, "run_query", fail)
    monkeypatch.setattr(sys, "argv", ["volbench", "query", "SELECT 1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert f"| {code} |" in (ROOT / "docs/troubleshooting.md").read_text()


def test_an_interrupted_command_is_exit_code_130(run: RunDirectory) -> None:
    """SIGINT while a query runs that would not end by itself for long."""
    sql = "SELECT count(*) FROM range(100000000) a, range(100000) b"
    started = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, "query", sql, "--out", str(run.path.parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "runner")},
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    started.send_signal(signal.SIGINT)
    _, message = started.communicate(timeout=TIMEOUT_S)
    assert started.returncode == 130, message
    assert "Traceback" not in message


_INTERRUPTED = """
import sys, time
from volbench.cli import main
from volbench.cli.runs import query
def wait(results, sql):
    print("ready", flush=True)
    time.sleep(30)
query.run_query = wait
main.main()
"""


@pytest.mark.parametrize("kind", ["html", "md", "json", "junit", "csv"])
def test_a_report_is_printed_in_every_format(run: RunDirectory, kind: str) -> None:
    ended = volbench("report", str(run.path), "--format", kind)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(
        {"html": "<!doctype html", "md": "#", "json": "{", "junit": "<?xml", "csv": ""}[kind]
    )
    assert "synthetic" in ended.stdout


def test_a_report_names_the_files_that_it_wrote(run: RunDirectory) -> None:
    ended = volbench("report", str(run.path))
    written = [Path(line.removeprefix("report: ")) for line in ended.stdout.splitlines()]
    assert {path.suffix for path in written} >= {".html", ".md", ".json"}
    assert all(path.is_file() for path in written)


def test_compare_says_verdicts_in_a_table_and_in_json(run: RunDirectory) -> None:
    heading, *rows = volbench("compare", str(run.path)).stdout.splitlines()
    assert heading.split()[:4] == ["step", "metric", "against", "volume"]
    assert re.match(r"read-write +tps +a +b .* better$", rows[0])
    document = json.loads(volbench("compare", str(run.path), "--json", "--metric", "tps").stdout)
    assert document["groups"] == ["a", "b"]
    assert [(row["metric"], row["verdict"]) for row in document["comparisons"]] == [("tps", "better")]


def test_query_prints_a_table_and_json(run: RunDirectory) -> None:
    sql = "SELECT volume, count(*) AS cells FROM cells GROUP BY volume ORDER BY volume"
    results = str(run.path.parent)
    assert json.loads(volbench("query", sql, "--out", results, "--json").stdout) == [
        {"volume": "a", "cells": 5},
        {"volume": "b", "cells": 5},
    ]
    assert "cells" in volbench("query", sql, "--out", results).stdout


def test_query_only_reads(run: RunDirectory, tmp_path: Path) -> None:
    ended = volbench("query", f"COPY (SELECT 1) TO '{tmp_path}/x.csv'", "--out", str(run.path.parent))
    assert ended.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_doctor_prints_pure_json() -> None:
    """It answers on any machine; each lack that can be mended names the command."""
    document = json.loads(volbench("doctor", "--json").stdout)
    assert document["host"]["cpus"] >= 1
    assert {"docker", "mysqld", "sysbench"} <= {item["name"] for item in document["prerequisites"]}
    assert all(item["fix"] for item in document["prerequisites"] if not item["available"])


def test_doctor_is_readable_at_80_columns() -> None:
    """A line for each, none broken by a table's columns."""
    prerequisites = json.loads(volbench("doctor", "--json").stdout)["prerequisites"]
    lines = [line for line in volbench("doctor").stdout.splitlines() if line.startswith("  ")]
    for item in prerequisites:
        assert any(line.split(None, 1)[1].startswith(item["name"]) and item["evidence"] in line for line in lines)
        if not item["available"]:
            assert any(line.strip() == f"fix: {item['fix']}" for line in lines)


def test_a_server_is_for_the_attach_target_only() -> None:
    message = message_of(volbench("plan", QUICK, "--target", "local", "--server", "mysql://u@h/db"), 2)
    assert "--target attach" in message


BAD_SPECS = ("--volume", "a=emulated:ebs-gp22", "--volume", "b=emulated:ebs-gp2?siez=50GiB")


@pytest.mark.parametrize("command", [("plan", QUICK), ("run", QUICK, "--yes"), ("run", QUICK, "--yes", "--json")])
def test_a_wrong_spec_is_told_before_anything_is_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    """All at once, with the nearest match; a run that could never be resumed is not begun."""
    fault = message_of(volbench(*command, "--target", "local", *BAD_SPECS, cwd=tmp_path), 2)
    assert "ebs-gp2" in fault
    assert "'siez'" in fault
    assert "resume" not in fault
    assert not list(tmp_path.iterdir())


def test_suite_check_tells_of_wrong_specs(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text("name: s\nsteps:\n- {kind: oltp, duration: 30s}\nvolumes:\n  a: emulated:ebs-gp22\n")
    fault = message_of(volbench("suite", "check", str(suite)), 2)
    assert "s.yaml:5" in fault
    assert "perhaps you meant 'ebs-gp2'" in fault


def test_the_version_is_shown() -> None:
    assert re.fullmatch(r"volbench \d+\.\d+\.\d+\n", volbench_process("--version").stdout)


@pytest.mark.parametrize(
    "command", [["list", "--out"], ["compare"], ["query", "FROM runs", "--out"], ["suite", "list"]]
)
def test_what_lists_prints_the_same_rows_in_each_format(command: list[str], run: RunDirectory) -> None:
    location = [] if command[0] == "suite" else [str(run.path if command[0] == "compare" else run.path.parent)]
    stdouts = {name: volbench(*command, *location, "-o", name).stdout for name in ("table", "json", "csv", "md")}
    assert json.loads(stdouts["json"]) == json.loads(volbench(*command, *location, "--json").stdout)
    rows = len(list(csv.reader(io.StringIO(stdouts["csv"]))))
    assert rows > 1
    assert len(stdouts["md"].splitlines()) == rows + 1
    assert stdouts["md"].splitlines()[1].startswith("|---")
