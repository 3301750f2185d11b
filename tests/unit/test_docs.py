"""README and docs/: short, linked, in step with the code, in the field's words."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from pydantic import BaseModel
from stored_files import REPORT, stored_text
from typer.testing import CliRunner

from volbench.cli.main import COMMANDS, app, command_of
from volbench.core.records.cell import ValidityLimits
from volbench.core.records.goals.capacity import CapacityPlan
from volbench.core.records.goals.policy import PolicyFile
from volbench.core.records.report import Report
from volbench.core.records.validation.plan import (
    BurstPlan,
    CandidatePlace,
    GrowthPlan,
    MovePlan,
    QueriesPlan,
    ReplayPlan,
    ReplicaPlan,
    SettingsPlan,
    SourcePlace,
    ValidationPlan,
)
from volbench.results.explain import thresholds as limit
from volbench.results.explain.causes import CAUSES
from volbench.results.explain.evidence.burst import BALANCE_EMPTY_PERCENT

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
WRITTEN = (
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "runner/ARCHITECTURE.md",
    ROOT / "suites/validation/README.md",
    ROOT / "suites/policies/README.md",
    ROOT / "docker/README.md",
    ROOT / "docker/volumes/README.md",
    ROOT / "k8s/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/decisions").glob("*.md")),
)
"""Pages that people wrote, and the page of servers that a test run writes."""
CELL_MAX = 500
DIALECT = re.compile(
    r"\b(anew|beside|mend(?:s|ed|ing)?|lacks?|told|meanwhile|perhaps|whatever is there)\b", re.IGNORECASE
)
"""Words that the glossary lists as not used; other ones of that list are English where they are no names."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_readme_is_short_and_shows_a_report_first() -> None:
    text = README.read_text()
    assert len(text.encode()) <= 6 * 1024
    assert text.index("![") < text.index("\n## ")
    assert (ROOT / "docs/pictures/report.png").stat().st_size <= 120 * 1024


def test_the_picture_of_the_readme_is_of_todays_report() -> None:
    """It showed a headline and a table that no report had had for weeks; `make picture` takes it anew."""
    summary = Report.model_validate_json(stored_text(ROOT / f"results/examples/quick/{REPORT}")).summary
    picture = cast("PngImageFile", Image.open(ROOT / "docs/pictures/report.png"))
    assert picture.text["Description"] == " ".join((f"{summary.headline}.", summary.sentence, *summary.notes))


def test_the_readme_has_its_sections_in_order() -> None:
    assert re.findall(r"^## (.*)$", README.read_text(), re.MULTILINE) == [
        "Install",
        "Compare two volumes",
        "How to read the verdict",
        "Commands",
        "Documentation",
        "Contributing",
        "Licence",
    ]


def test_the_readme_links_every_page_of_docs() -> None:
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", README.read_text()))
    read_elsewhere = {"docs/servers.md", "docs/internals.md", "docs/modules.md"}
    assert {named(path) for path in (ROOT / "docs").glob("*.md")} - read_elsewhere == linked


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _without_code(page.read_text())):
        if re.match(r"https?://", target):
            continue
        location, _, anchor = target.partition("#")
        file = (page.parent / location).resolve() if location else page
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file.read_text()), target


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_a_table_cell_can_be_read(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert [cell for row in rows for cell in row.split(" | ") if len(cell) > CELL_MAX] == []


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_a_page_speaks_the_language_of_the_field(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", _without_code(page.read_text()))
    if page.name == "glossary.md":
        text = text[: text.index("## Words that volbench does not use")]
    assert [match[0] for match in DIALECT.finditer(text)] == []


def _options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def _commands() -> Iterator[tuple[str, str]]:
    """Each page with each line of its code blocks that runs volbench, comments and continued lines taken in."""
    for page in WRITTEN:
        for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                match = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?volbench (.*)", line)
                if match and "..." not in match[1]:
                    yield named(page), match[1]


@pytest.mark.parametrize(("page", "line"), sorted(set(_commands())))
def test_a_command_of_the_documentation_exists_with_its_options(page: str, line: str) -> None:
    command: Any = typer.main.get_command(app)
    arguments = [field for field in shlex.split(line, comments=True) if field != "--verbose"]
    while hasattr(command, "get_command") and not (arguments and arguments[0].startswith("-")):
        name = arguments.pop(0)
        command = command.get_command(None, name)
        assert command is not None, f"{page}: {name}"
    options = _options_of(command)
    if command.context_settings.get("allow_interspersed_args") is False:  # a command with options of its own
        options |= {option for name in arguments if name in COMMANDS for option in _options_of(command_of(name))}
    assert {argument.partition("=")[0] for argument in arguments if argument.startswith("--")} <= options | {
        "--help"
    }


_NO_SERVER = (ROOT / "docs/compare.md").read_text().partition("## Without a server")[2]


@pytest.mark.parametrize("line", re.findall(r"^volbench (.*)$", _NO_SERVER, re.MULTILINE))
def test_a_command_that_needs_no_server_ends_as_the_page_says(line: str) -> None:
    """Each in the checkout, as a reader types it."""
    code = re.search(r"exit code (\d+)", line)
    answer = CliRunner().invoke(app, shlex.split(line, comments=True))
    assert answer.exit_code == (int(code[1]) if code else 0), answer.output
    assert answer.output.strip()


def test_the_quoted_verdict_and_cause_are_those_of_the_example() -> None:
    report = (ROOT / "results/examples/quick/report.md").read_text().replace("\\", "")
    quoted = re.search(r"^> \*\*(.+?)\*\*$", (ROOT / "docs/compare.md").read_text(), re.MULTILINE | re.DOTALL)
    assert quoted is not None
    assert quoted[1].replace("\n> ", " ") in report
    cause = re.search(r"^gp3 \(read-write\): (.+?)\. (.+), \.\.\.$", README.read_text(), re.MULTILINE)
    assert cause is not None
    assert f"**{cause[1]}** on gp3 (read-write)" in report
    assert cause[2] in report


def test_the_plan_in_the_walk_through_is_what_plan_prints() -> None:
    block = (ROOT / "docs/compare.md").read_text().partition("prints (shortened):\n```\n")[2].partition("```")[0]
    lines = [line for line in block.splitlines() if not line.startswith(("target", "  volume"))]
    assert len(lines) == 5
    volumes = ["--volume", "gp3=path:/mnt/gp3", "--volume", "io2=path:/mnt/io2"]
    ended = CliRunner().invoke(app, ["plan", str(ROOT / "suites/compare.yaml"), *volumes, "--target", "local"])
    assert ended.exit_code == 0, ended.output
    assert [line for line in lines if line not in ended.output.splitlines()] == []


def test_the_messages_of_common_problems_are_those_of_the_code() -> None:
    code = "".join(path.read_text() for path in (ROOT / "runner/volbench").rglob("*.py"))
    section = (
        (ROOT / "docs/troubleshooting.md").read_text().partition("## Common problems\n")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    messages = [text.rstrip(". ").strip() for row in rows for text in re.findall(r"\*([^*]+)\*", row)]
    assert len(messages) > 9
    missing = [text for text in messages if text.rpartition(": ")[2] not in code]
    assert missing == ["no volbench-volume"]  # `no {DAEMON}` in the code


def test_every_cause_is_explained() -> None:
    page = (ROOT / "docs/causes.md").read_text()
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    assert set(sections) == set(CAUSES)
    for cause, text in sections.items():
        assert all(piece in text for piece in ("**Meaning.**", "**What you see.**", "**What to do.**")), cause
        assert f"`{cause}`](#{_anchor(cause)})" in page, cause


@pytest.mark.parametrize(
    ("cause", "figures"),
    [
        ("storage.iops_limit", (f"{limit.EXCEEDED_MIN:.0%}", f"{limit.INFLATION_CAPPED:.0f} times")),
        ("storage.burst_exhausted", (f"{BALANCE_EMPTY_PERCENT:g} %",)),
        ("storage.read_latency", (f"{limit.READ_SLOW_MS:g} ms", f"{limit.SHARE_MIN:.0%}")),
        ("storage.sync_latency", (f"{limit.SYNC_SLOW_MS:g} ms", f"{limit.SHARE_MIN:.0%}")),
        ("storage.metadata_latency", (f"{limit.METADATA_SHARE_MIN:.0%}",)),
        (
            "storage.degraded",
            (
                f"{limit.DEGRADED_RISE:.0f} times",
                f"{limit.DEGRADED_AWAIT_MS:.0f} ms",
                f"{limit.DEGRADED_IOPS:.0f} IOPS",
                f"{limit.DEGRADED_MIB_PER_S:.0f} MiB/s",
            ),
        ),
        ("instance.storage_limit", (f"{limit.EXCEEDED_MIN:.0%}",)),
        ("interference.backup", (f"{limit.INTERFERENCE_MIN:.0%}",)),
        ("memory.buffer_pool_small", (f"{limit.POOL_MISS_MIN:.0%}",)),
        ("redo.checkpoint_stall", (f"{limit.CHECKPOINT_AGE_FULL:.0%}",)),
        ("lock.row_contention", (f"{limit.ROW_LOCK_SHARE_MIN:.0%}",)),
        ("lock.metadata_contention", (f"{limit.METADATA_LOCK_SHARE_MIN:.0%}",)),
        ("cpu.server_saturated", (f"{limit.CPU_BUSY_MIN:.0%}",)),
        ("cpu.client_saturated", (f"{limit.CLIENT_CPU_MIN:.0%}",)),
        ("cpu.steal", (f"{limit.STEAL_MIN:.0%}",)),
        ("none", (f"{limit.STORAGE_SHARE_MIN:.0%}",)),
    ],
)
def test_the_figures_of_a_cause_are_those_of_its_rule(cause: str, figures: tuple[str, ...]) -> None:
    page = (ROOT / "docs/causes.md").read_text()
    text = page.partition(f"\n## {cause}\n")[2].partition("\n## ")[0].replace("\n", " ")
    assert [figure for figure in figures if figure.replace("%", " %").replace("  ", " ") not in text] == []


def test_the_limits_of_validity_are_the_defaults() -> None:
    text = (ROOT / "docs/statistics.md").read_text().partition("## Invalid cells\n")[2].partition("\n## ")[0]
    limits = ValidityLimits()
    for phrase in (
        f"the client was CPU-bound | {limits.client_cpu * 100:g} %",
        f"offer the rate | {limits.rate_shortfall * 100:g} %",
        f"delivered | {limits.device_against_client * 100:g} %",
        f"samples are missing | {limits.missed_samples * 100:g} %",
        f"stolen CPU | {limits.foreign_cpu * 100:g} % of all CPU time; {limits.cpu_steal * 100:g} %",
        f"{limits.foreign_iops:g} operations per second, and {limits.foreign_share * 100:g} %",
        f"the wall clock was set | {limits.clock_step_s:g} s",
        f"fell behind its model | {limits.emulator_late * 100:g} % of throughput",
    ):
        assert phrase in text


@pytest.mark.parametrize(
    ("heading", "models"),
    [
        ("The plan", (ValidationPlan,)),
        ("`source`, `candidate`", (SourcePlace, CandidatePlace)),
        ("`queries`", (QueriesPlan,)),
        ("`settings`", (SettingsPlan,)),
        ("`replay`", (ReplayPlan,)),
        ("`move`", (MovePlan,)),
        ("`capacity`", (CapacityPlan,)),
        ("`burst`", (BurstPlan,)),
        ("`growth`", (GrowthPlan,)),
        ("`replica`", (ReplicaPlan,)),
    ],
)
def test_every_key_of_a_validation_plan_is_explained(heading: str, models: tuple[type[BaseModel], ...]) -> None:
    page = (ROOT / "suites/validation/README.md").read_text()
    text = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert _first_column(text) == keys


def test_every_key_of_a_policy_is_explained() -> None:
    page = (ROOT / "suites/policies/README.md").read_text()
    keys = {field.alias or name for name, field in PolicyFile.model_fields.items()}
    assert _first_column(page.partition("\n## ")[0]) == keys


def test_the_layers_of_the_tour_are_those_of_the_contract() -> None:
    contract, *of_rooms = (
        contract
        for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    page = (ROOT / "runner/ARCHITECTURE.md").read_text()
    layers = re.search(r"## Layers.*?```\n(.*?)```", page, re.DOTALL)
    assert layers is not None
    assert layers[1].splitlines() == contract["layers"]
    packages = {name for layer in contract["layers"] for name in layer.split(" | ")}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == packages
    rooms = {
        f"{room['containers'][0].removeprefix('volbench.')}/{name}"
        for room in of_rooms
        for layer in room["layers"]
        for name in layer.split(" | ")
    }
    assert rooms - set(re.findall(r"`(\w+/\w+)`", page)) == set()


EXTENDING = (ROOT / "docs/extending.md").read_text()


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:\w+/)*[\w.-]+\.(?:py|yaml|md|json|j2))`", EXTENDING))), ids=str
)
def test_a_file_that_the_guide_names_is_there(path: str) -> None:
    """A path from the root or below runner/volbench, or a name that is there once.

    NAME stands for a new file, ROLE for one of some directories.
    """
    if "NAME" in path:
        path = str(Path(path.partition("ROLE")[0] + "x").parent if "ROLE" in path else Path(path).parent)
    alone = () if "/" in path else (*(ROOT / "runner/volbench").rglob(path), *(ROOT / "tests/lab").rglob(path))
    assert alone or any((base / path).exists() for base in (ROOT, ROOT / "runner/volbench"))


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_a_module_that_a_page_names_is_there(page: Path) -> None:
    """By its path from the root or below runner/volbench."""
    paths = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text()))
    below = (ROOT, ROOT / "runner/volbench")
    missing = [path for path in paths if not any((base / path).exists() for base in below)]
    assert [path for path in missing if "NAME" not in path] == []


def test_names_that_the_guide_gives_are_in_the_code() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "runner/volbench").rglob("*.py"))
    code += (ROOT / "tests/contract/test_workloads.py").read_text()
    names = set(re.findall(r"`(_?[A-Z][A-Z_]+)`", EXTENDING))
    assert {"KIND", "SOURCE", "CAUSES", "NAMES"} <= names
    assert [name for name in sorted(names) if not re.search(rf"^{name}\b", code, re.MULTILINE)] == []


def _first_column(text: str) -> set[str]:
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def _anchors(text: str) -> set[str]:
    return {_anchor(heading) for heading in re.findall(r"^#+ (.*)$", _without_code(text), re.MULTILINE)}


def _anchor(heading: str) -> str:
    """As GitHub and the site make them of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


INTERNALS = (ROOT / "docs/internals.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?!wait/)(?:[a-z_]+/)+[a-z_]+)`", INTERNALS))), ids=str)
def test_a_module_that_the_internals_name_without_its_ending_is_there(name: str) -> None:
    """By its path below runner/volbench, below one of its packages, or from the root."""
    packages = [path.parent for path in (ROOT / "runner/volbench").rglob("__init__.py")]
    assert any((base / f"{name}.py").is_file() or (base / name).exists() for base in (ROOT, *packages))
