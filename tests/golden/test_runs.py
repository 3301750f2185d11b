"""A run that was written once is read as long as its format is today's, and its report stays what it was.

`run` holds the JSON files of ten cells (without Parquet tables). When a record gains a field, these files stay as
they are. The expected reports change only with the analysis: look at what differs, then write them anew with
`volbench report tests/golden/run --format json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from json_schemas import check_record
from record_schemas import MODELS, VERSIONS

from volbench.errors import RunUnreadable
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.store.files import read_record
from volbench.results.store.run_directory import RunDirectory

HERE = Path(__file__).parent


def same(result: Any, expected: Any, location: str = "report") -> None:
    """Every key and value that was expected; further keys may have come since. Floats to the last few bits."""
    if isinstance(expected, dict):
        assert isinstance(result, dict), location
        for key, value in expected.items():
            assert key in result, f"{location}.{key}"
            same(result[key], value, f"{location}.{key}")
    elif isinstance(expected, list):
        assert len(result) == len(expected), location
        for number, (item, alternative) in enumerate(zip(result, expected, strict=True)):
            same(item, alternative, f"{location}[{number}]")
    elif isinstance(expected, float):
        assert result == pytest.approx(expected, rel=1e-9), location
    else:
        assert result == expected, location


def test_report_json_says_what_it_said() -> None:
    """The contract with programs."""
    directory = RunDirectory.open(HERE / "run")
    same(
        json.loads(render(build_report(directory), directory, "json")),
        json.loads((HERE / "report.json").read_text()),
    )


FILES = {
    "run": [HERE / "run/run.json"],
    "cell": sorted(HERE.glob("run/cells/*/cell.json")),
    "result": sorted(HERE.glob("run/cells/*/result.json")),
    "report": [HERE / "report.json"],
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_todays_format_are_read_and_written_again(name: str) -> None:
    """Files may lack keys that were added within the format's version."""
    assert FILES[name]
    for path in FILES[name]:
        record = read_record(path, MODELS[name], schema=VERSIONS[name])
        check_record(name, json.loads(record.model_dump_json(by_alias=True)))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("version", "message"),
    [
        (1, "schema 1 is a superseded format: development versions before 0.2.0 wrote it"),
        (3, "schema 3 cannot be read by this volbench, which reads schema 2"),
        ("2", "schema '2' cannot be read"),
        (True, "schema True cannot be read"),
        (None, "schema None cannot be read"),
    ],
)
def test_a_file_of_another_format_is_refused_with_one_message(
    tmp_path: Path, name: str, version: object, message: str
) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps({**json.loads(FILES[name][0].read_text()), "schema": version}))
    with pytest.raises(RunUnreadable) as raised:
        read_record(path, MODELS[name], schema=VERSIONS[name])
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert raised.value.next_step
    assert raised.value.exit_code == 2


def test_markdown() -> None:
    """What people see in a pull request."""
    directory = RunDirectory.open(HERE / "run")
    assert render(build_report(directory), directory, "md") == (HERE / "report.md").read_text()
