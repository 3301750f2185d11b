"""Suite files: every fault at once, with its line and the nearest match."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.steps.fio import FioStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.suite.load import check_suite, load_suite
from volbench.core.suite.model import PINNED_DURABILITY, SuiteFile
from volbench.errors import UsageError
from volbench.results.explain.rules import stretch
from volbench.results.explain.rules.volume import all_along
from volbench.results.response import samples

SHIPPED = sorted(Path("suites").glob("*.yaml"))
MINIMAL = "name: small\nsteps:\n  - kind: oltp\n    threads: [1, 8]\n    duration: 30s\n"


def faults_of(text: str, *settings: str) -> str:
    with pytest.raises(UsageError) as caught:
        check_suite(text, name="s.yaml", settings=settings)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_suite_is_well_formed_and_named_as_its_file(path: Path) -> None:
    suite, text = load_suite(path)
    assert suite.name == path.stem
    assert suite.resolved().steps
    assert text == path.read_text()


def test_defaults_are_filled_in_and_durability_is_pinned() -> None:
    resolved = check_suite(MINIMAL, name="s.yaml").resolved()
    assert resolved.repeats == 5
    assert resolved.server.config == PINNED_DURABILITY


def test_a_suite_overrides_what_is_pinned() -> None:
    suite = check_suite(MINIMAL + "engine:\n  config:\n    sync_binlog: 0\n", name="s.yaml")
    assert suite.resolved().server.config["sync_binlog"] == 0
    assert suite.resolved().server.config["innodb_flush_log_at_trx_commit"] == 1


def test_a_list_of_threads_becomes_one_step_each_under_one_name() -> None:
    steps = check_suite(MINIMAL, name="s.yaml").resolved().steps
    assert [(step.name, step.threads) for step in steps if isinstance(step, OltpStep)] == [
        ("oltp", (1,)),
        ("oltp", (8,)),
    ]


def test_steps_of_one_kind_get_numbered_names() -> None:
    text = "name: s\nsteps:\n  - kind: idle\n  - kind: idle\n"
    assert [step.name for step in check_suite(text, name="s.yaml").resolved().steps] == ["idle", "idle-2"]


def test_an_unknown_key_is_shown_with_its_line_and_the_nearest_match() -> None:
    assert "s.yaml:6: steps.0.thread: unknown key, perhaps you meant 'threads'" in faults_of(
        "name: s\n# a comment\nrepeats: 2\nsteps:\n  - kind: oltp\n    thread: 8\n"
    )


def test_a_key_of_another_kind_of_step_is_no_suggestion() -> None:
    """`late_max` is a key of replay, and not what somebody meant who gave it to oltp."""
    message = faults_of("name: s\nsteps:\n  - kind: oltp\n    late_max: 5%\n")
    assert "steps.0.late_max: unknown key, " in message
    assert "'late_max'" not in message


def test_the_keys_of_a_suite_are_listed_once_for_all_its_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of 3 kB with 147 faults took a second."""
    schemas: list[None] = []
    listed = SuiteFile.model_json_schema

    def counted() -> dict[str, Any]:
        schemas.append(None)
        return listed()

    monkeypatch.setattr(SuiteFile, "model_json_schema", counted)
    faults_of("name: s\nsteps:\n" + "  - {kind: oltp, thread: 8}\n" * 50)
    assert len(schemas) <= 1


def test_all_faults_are_reported_at_once() -> None:
    message = faults_of("name: s\nrepeat: 3\nsteps:\n  - kind: oltp\n    duration: 3 parsecs\n  - kind: oltpp\n")
    assert "3 faults" in message
    assert "s.yaml:2: repeat: unknown key, perhaps you meant 'repeats'" in message
    assert "s.yaml:5: steps.0.duration: '3 parsecs' is not a duration such as 30s" in message
    assert "perhaps you meant 'oltp'" in message


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("name: [", "s.yaml:1"),
        ("- a\n- b\n", "has to be a mapping"),
        ("name: s\nname: t\n", "duplicate key"),
        ("name: s\n", "the key 'steps' is missing"),
        ("name: !!python/object:os.system s\nsteps:\n  - kind: idle\n", "s.yaml:1"),
        ("name: s\nsteps:\n  - kind: restore\n", "a restore step needs a dump step before it"),
        ("name: s\nsteps:\n  - kind: idle\ncomparison:\n  metrics: [tpss]\n", "no metric is called 'tpss'"),
        ("name: Über\nsteps:\n  - kind: idle\n", "s.yaml:1: name"),
        ("name: s\nsteps:\n  - kind: oltp\n    threads: 0\n", "has to be at least 1, and is 0"),
        ("name: s\nsteps:\n  - kind: oltp\n    rate: 0\n", "has to be more than 0, and is 0"),
        ("name: s\nsteps:\n  - kind: oltp\n    concurrent: [null]\n", "s.yaml:4: steps.0.concurrent.0"),
    ],
)
def test_bad_suites_are_refused_with_the_place(text: str, phrase: str) -> None:
    assert phrase in faults_of(text)


def test_set_changes_a_step_by_name_number_or_kind() -> None:
    text = "name: s\nsteps:\n  - kind: oltp\n    name: rw\n"
    for key in ("steps.rw.duration", "steps.0.duration", "steps.oltp.duration"):
        step = check_suite(text, name="s.yaml", settings=[f"{key}=5s"]).steps[0]
        assert isinstance(step, OltpStep)
        assert step.duration_s == 5


def test_a_fault_in_a_set_value_names_the_option() -> None:
    assert "--set repeats=many: repeats:" in faults_of(MINIMAL, "repeats=many")


@pytest.mark.parametrize("assignment", ["repeats", "=3", "steps.9.duration=5s", "name.x.y=1"])
def test_a_set_that_leads_nowhere_is_refused(assignment: str) -> None:
    assert f"--set {assignment}" in faults_of(MINIMAL, assignment)


def test_a_suite_file_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "quick.yaml").write_text(MINIMAL)
    with pytest.raises(UsageError, match=r"perhaps you meant .*quick\.yaml"):
        load_suite(tmp_path / "quik.yaml")


SCALED = MINIMAL + "repeats: 8\nscales:\n  ci:\n    repeats: 4\n    steps.oltp.duration: 5s\n"


def test_a_scale_puts_its_values_in_place_and_other_settings_win() -> None:
    resolved = check_suite(SCALED, name="s.yaml", settings=["repeats=2", "scale=ci"]).resolved()
    assert (resolved.scale, resolved.repeats) == ("ci", 2)
    assert {step.duration_s for step in resolved.steps if isinstance(step, OltpStep)} == {5.0}


def test_without_a_scale_a_suite_is_as_it_stands() -> None:
    resolved = check_suite(SCALED, name="s.yaml").resolved()
    assert (resolved.scale, resolved.repeats) == ("full", 8)


def test_a_scale_that_is_not_there_is_named_with_those_that_are() -> None:
    assert "no scale is called 'cj' (there are: full, ci)" in faults_of(SCALED, "scale=cj")


def test_a_fault_in_a_scale_is_shown_at_its_line() -> None:
    text = MINIMAL + "scales:\n  ci:\n    steps.nothing.duration: 5s\n"
    assert "s.yaml:8" in faults_of(text, "scale=ci")
    text = MINIMAL + "scales:\n  ci:\n    steps.0.duration: long\n"
    assert "s.yaml:8" in faults_of(text, "scale=ci")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_scale_of_every_shipped_suite_is_well_formed(path: Path) -> None:
    suite, _ = load_suite(path)
    for name in suite.scales:
        assert load_suite(path, settings=[f"scale={name}"])[0].resolved().scale == name


def test_the_first_look_is_as_long_as_rules_of_causes_and_slopes_ask_for() -> None:
    """A window begins anywhere in a second of the samplers, and holds one whole interval less than seconds."""
    suite = load_suite(Path("suites/quick.yaml"))[0].resolved()
    [step] = suite.steps
    assert isinstance(step, OltpStep)
    assert step.duration_s / suite.sampling.interval_s - 1 >= max(samples.SAMPLES_MIN, all_along.SAMPLES_MIN)


def test_the_windows_of_compare_are_as_long_as_rules_ask_for() -> None:
    """Reads and writes as in a first look; of point reads, those rules that name a limit."""
    suite = load_suite(Path("suites/compare.yaml"))[0].resolved()
    least = (max(samples.SAMPLES_MIN, all_along.SAMPLES_MIN), stretch.SAMPLES_MIN)
    for step, needed in zip(suite.steps, least, strict=True):
        assert isinstance(step, OltpStep)
        assert step.duration_s / suite.sampling.interval_s - 1 >= needed


def test_a_step_on_files_needs_the_phase_that_makes_them() -> None:
    for kind in ("small_files", "ddl"):
        text = f"name: s\nsteps:\n  - kind: {kind}\n    phases: [drop]\n".replace(
            "[drop]", "[drop]" if kind == "ddl" else "[stat]"
        )
        assert "the phase 'create' is needed" in faults_of(text)


def test_one_value_of_a_fio_list_may_stand_alone() -> None:
    text = "name: s\nsteps:\n  - {kind: fio, rw: randwrite, block_size: 16KiB, iodepth: 4}\n"
    (step,) = check_suite(text, name="s.yaml").resolved().steps
    assert isinstance(step, FioStep)
    assert (step.rw, step.block_size_bytes, step.iodepth) == (("randwrite",), (16384,), (4,))


def test_faults_come_in_the_order_of_the_lines_and_in_words_of_the_writer() -> None:
    text = (
        "name: 5\nrepeats: 0\nunderpowered: maybe\ndescripton: x\nsteps:\n"
        "  - kind: oltpp\n  - kind: oltp\n    threads: []\n    duration: [3]\nscale: [1]\n"
    )
    messages = faults_of(text)
    lines = [int(number) for number in re.findall(r"^ .*s\.yaml:(\d+): ", messages, re.MULTILINE)]
    assert lines == sorted(lines)
    assert "name: has to be a text, and is 5" in messages
    assert "repeats: has to be at least 1, and is 0" in messages
    assert "underpowered: has to be true or false, and is 'maybe'" in messages
    assert re.search(r"unknown kind oltpp; known: alter, .*; perhaps you meant 'oltp'", messages)
    assert "threads: has to have at least 1 entry, and has 0" in messages
    assert not re.search(r"Input|validation|Tuple|valid string", messages)


def test_a_fault_of_set_comes_after_those_of_the_lines() -> None:
    messages = faults_of("name: 5\nsteps:\n  - kind: idle\n", "repeats=0")
    assert messages.index("s.yaml:1: name") < messages.index("--set")


@pytest.mark.parametrize("value", ["comparee.yaml", "compare", "suits/compare.yaml"])
def test_a_suite_that_is_not_there_is_taken_for_the_nearest_that_comes_with_volbench(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        load_suite(Path(value))
    assert "suites/compare.yaml" in caught.value.evidence
