"""Every kind of page that volbench makes, written by the code that users run: what the browser's tests open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from stored_files import REPORT, stored_text
from synthetic_history import slower_from, write_history
from synthetic_observation import add_incident, build
from synthetic_run import Synthetic, SyntheticVolume, build_run, hostile, two_volumes
from typer.testing import CliRunner

from causes import page as causes_lab
from explain import page as explain_lab
from score_files import DATA_FILE
from volbench.cli.main import app
from volbench.core.records.pack import PACK_SUFFIX
from volbench.core.records.report import Report
from volbench.core.records.validation.result import Validation
from volbench.observe.report import report_of
from volbench.observe.sections import document_of
from volbench.results.pack.make import make_pack
from volbench.results.report.formats.html import html
from volbench.results.report.formats.sections import sections_page
from volbench.results.report.formats.validation import validation_html
from volbench.results.report.page_data import PageData
from volbench.results.report.render import write_reports
from volbench.results.report.views.timeline import Timelines
from volbench.results.site.build import build_site

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "results" / "examples"
FIXTURES = ROOT / "tests" / "fixtures"
NO_SERIES = PageData(
    timelines=Timelines(cells=(), unreadable=()),
    distributions=(),
    small_multiples=(),
    session_charts=(),
    source_problems=(),
)
Maker = Callable[[Path], list[Path]]
"""Writes the pages of a kind into an empty directory and returns them."""


def _run(*arguments: str | Path) -> str:
    """Run a command of volbench; return what it printed. Raises what the command raises."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def _written(directory: Path, name: str, text: str) -> list[Path]:
    (directory / name).write_text(text, encoding="utf-8")
    return [directory / name]


def _report(directory: Path, expected: Synthetic) -> list[Path]:
    return [path for path in write_reports(build_run(directory, expected))[1] if path.suffix == ".html"]


def two(directory: Path) -> list[Path]:
    """A report on two volumes, one cell invalid."""
    return _report(directory, two_volumes(repeats=3, invalid={("a", 1): "client CPU-bound"}))


def twelve(directory: Path) -> list[Path]:
    """A report on twelve volumes: more than there are colours."""
    volumes = tuple(SyntheticVolume(name=f"volume-{at}", speed=1 + at / 10) for at in range(12))
    return _report(directory, Synthetic(volumes=volumes, repeats=1, steps=two_volumes().steps[:1]))


def single(directory: Path) -> list[Path]:
    """A report on one volume that has one cell."""
    return _report(directory, Synthetic(volumes=(SyntheticVolume(name="a"),), repeats=1))


def untrusted(directory: Path) -> list[Path]:
    """A report whose every text from outside tries to be markup."""
    return _report(directory, hostile())


def sections(directory: Path) -> list[Path]:
    """Reports with the sections that a synthetic run has not: factors, large and small files."""
    stored = (EXAMPLES / "fsx-async-writes" / REPORT, EXAMPLES / "efs-small-files" / REPORT)
    return [
        _written(directory, f"{at}.html", html(Report.model_validate_json(stored_text(file)), NO_SERIES))[0]
        for at, file in enumerate(stored)
    ]


def site(directory: Path) -> list[Path]:
    """The history of all runs: the index, one history, two runs side by side, any two of them, packs of others."""
    write_history(directory / "results", 12, levels={"gp3": slower_from(8, 1.4)})
    packs = directory / "packs"
    packs.mkdir()
    run = build_run(directory, two_volumes(repeats=3))
    make_pack(run, packs / f"a{PACK_SUFFIX}", storage_classes={"a": "ebs-gp3"}, region="eu-central-1")
    (packs / f"damaged{PACK_SUFFIX}").write_bytes(b"no archive")
    build_site(directory / "results", directory / "site", packs=[packs])
    paths = sorted((directory / "site").rglob("*.html"))
    by_directory = {path.parent: path for path in paths if path.parent != directory / "site"}
    return [*(path for path in paths if path.parent == directory / "site"), *by_directory.values()]


def observation(directory: Path) -> list[Path]:
    """The report of `observe`, with an incident."""

    def stalled(tick: int) -> tuple[float, float, float]:
        return (0.0, 0.0, 8.0) if tick in range(61, 65) else (300.0 + tick % 7, 20.0 if tick == 65 else 1.0, 1.0)

    result = build(directory / "observation", 100, stalled)
    add_incident(result, 60.0, 65.0)
    return _written(directory, "observation.html", sections_page(document_of(report_of(result))))


def forecast(directory: Path) -> list[Path]:
    """`credits --plot`: of a constant load, of a history, of a volume that has no credits."""
    constant, history, none = (directory / f"{name}.html" for name in ("constant", "history", "none"))
    sar = FIXTURES / "sar" / "sar-d-japanese.txt"
    gp2 = ("credits", "--profile", "ebs-gp2", "--set", "size=100GiB")
    _run(*gp2, "--iops", "3000", "--plot", constant)
    _run(*gp2, "--from", sar, "--plot", history)
    _run("credits", "--profile", "ebs-gp3", "--iops", "3000", "--plot", none)
    return [constant, history, none]


def recordings(directory: Path) -> list[Path]:
    """`explain --from --html`: two hosts, and files without a clock."""
    (two_hosts,) = (FIXTURES / "evidence").glob("06-*")
    (clockless,) = (FIXTURES / "evidence").glob("05-*")
    for name, source in (("hosts", two_hosts), ("clockless", clockless)):
        _run("explain", "--from", source, "--html", directory / f"{name}.html")
    return sorted(directory.glob("*.html"))


def gate(directory: Path) -> list[Path]:
    """A decision by a policy, to be signed."""
    run = build_run(directory, two_volumes(steps=two_volumes().steps[:1]))
    policy = directory / "policy.yaml"
    policy.write_text(
        "schema: 2\nname: p\nconditions:\n  - tps >= 500\n  - latency_ms_p95 <= 1 ms\n  - checksums equal\n"
    )
    return _written(directory, "gate.html", _run("gate", run.path, "--policy", policy, "--format", "html"))


def validation(directory: Path) -> list[Path]:
    """A validation with differences."""
    stored = (EXAMPLES / "validation/planted/validation.json").read_text()
    return _written(directory, "validation.html", validation_html(Validation.model_validate_json(stored)))


def lab(directory: Path) -> list[Path]:
    """The scores of the lab of emulated volumes."""
    text = explain_lab.html(json.loads(stored_text(EXAMPLES / "lab" / DATA_FILE)))
    return _written(directory, "explain.html", text)


def lab_causes(directory: Path) -> list[Path]:
    """The scores of the lab of causes, with one of its readings: a section for each takes minutes."""
    data = json.loads(stored_text(EXAMPLES / "lab/causes" / DATA_FILE))
    data["readings"] = dict(list(data["readings"].items())[:1])
    return _written(directory, "causes.html", causes_lab.html(data))


KINDS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "two": (two, ("report/page/report.html.j2",)),
    "twelve": (twelve, ("report/page/report.html.j2",)),
    "single": (single, ("report/page/report.html.j2",)),
    "untrusted": (untrusted, ("report/page/report.html.j2",)),
    "sections": (sections, ("report/page/report.html.j2",)),
    "site": (
        site,
        tuple(f"site/page/{name}.html.j2" for name in ("base", "index", "history", "pair", "compare", "board")),
    ),
    "observation": (observation, ("report/page/sections.html.j2",)),
    "forecast": (forecast, ("report/page/sections.html.j2",)),
    "recordings": (recordings, ("report/page/sections.html.j2",)),
    "gate": (gate, ("report/page/gate.html.j2",)),
    "validation": (validation, ("report/page/validation.html.j2",)),
    "lab": (lab, ()),
    "lab_causes": (lab_causes, ()),
}
"""Name of a kind -> what makes its pages, and the templates of whole pages that it fills."""


def committed_pages() -> list[Path]:
    """Pages of the repository, the small ones first."""
    return sorted(EXAMPLES.rglob("*.html"), key=lambda path: path.stat().st_size)
