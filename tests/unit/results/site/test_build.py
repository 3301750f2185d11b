"""The site: what it holds, that it is made again only where something changed, and what it never overwrites."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from synthetic_history import slower_from, write_history

from volbench.errors import Refused, UsageError
from volbench.results.site.build import INDEX_FILE, build_site

SLOWER = {"gp3": slower_from(24, 1.4)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """Results of 30 runs, the latest six slower on gp3; the site; the runs' names."""
    base = tmp_path_factory.mktemp("site")
    names = write_history(base / "results", 30, levels=SLOWER)
    build_site(base / "results", base / "site", pairs=[(names[0], names[29])])
    return base / "results", base / "site", names


def page_of(site: Path, volume: str) -> str:
    (page,) = site.glob(f"history/quick-{volume}-*.html")
    return page.read_text()


def test_every_run_and_history_is_on_the_index(made: tuple[Path, Path, list[str]]) -> None:
    _, site, names = made
    index = (site / "index.html").read_text()
    assert re.findall(r'data-run="([^"]+)"', index) == names[::-1]
    for page in re.findall(r'href="(history/[^"]+)"', index):
        assert (site / page).is_file()
        assert (site / page).read_text().count("A cell is one pass of the suite on one volume") == 1


def test_the_slower_volume_is_a_regression_and_the_other_is_not(made: tuple[Path, Path, list[str]]) -> None:
    _, site, names = made
    suite = ElementTree.parse(site / "regressions.xml").getroot()[0]  # noqa: S314 - our own
    failed = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert set(failed) == {"tps", "latency_ms_p95", "latency_ms_p99"}
    assert {case.get("classname", "").split()[0] for case in suite if case.find("failure") is not None} == {
        "quick.gp3"
    }
    assert suite.get("failures") == "3"
    assert f"is worse since {names[24]}" in str(failed["tps"].get("message"))  # type: ignore[union-attr]
    assert "No change of level" in page_of(site, "disk")
    assert page_of(site, "gp3").count('class="mark worse"') == 3


def test_two_runs_side_by_side_have_the_exact_interval_and_markdown(made: tuple[Path, Path, list[str]]) -> None:
    _, site, names = made
    text = (site / "pairs" / f"{names[0]}--{names[29]}.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| gp3 ") and "transactions/s" in line]
    assert re.search(r"−(2[6-9]|3[01]) % \| \[−3\d %, −2\d %\] \| worse \|", row.replace("\\", "")), row  # 1 / 1.4
    assert not [line for line in text.splitlines() if line.startswith("| disk ") and "worse" in line]
    assert "0 settings differ" in text
    assert (site / "pairs" / f"{names[28]}--{names[29]}.html").is_file()


def test_a_second_build_reads_and_writes_nothing_and_a_new_run_only_its_own(
    made: tuple[Path, Path, list[str]], tmp_path: Path
) -> None:
    results, site = tmp_path / "results", tmp_path / "site"
    shutil.copytree(made[0], results)
    build_site(results, site)
    again = build_site(results, site)
    assert (again.read, again.written) == (0, 0)
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*.js")}
    (name,) = write_history(results, 1, levels=SLOWER, first=30)
    more = build_site(results, site)
    assert more.read == 1
    assert more.written <= 8  # its data, two histories, a page and Markdown beside the run before, index, JUnit
    assert (site / "data" / f"{name}.js").is_file()
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    shutil.rmtree(results / name)
    build_site(results, site)
    assert not (site / "data" / f"{name}.js").exists()


def test_settings_that_changed_are_shown_at_the_change(tmp_path: Path) -> None:
    names = write_history(tmp_path / "results", 20, levels={"gp3": slower_from(12, 1.5)})
    for name in names[12:]:
        file = tmp_path / "results" / name / "report.json"
        report = json.loads(file.read_text())
        report["server"]["variables"]["innodb_flush_log_at_trx_commit"] = "2"
        file.write_text(json.dumps(report))
    build_site(tmp_path / "results", tmp_path / "site")
    assert "server.innodb_flush_log_at_trx_commit: 1 → 2" in page_of(tmp_path / "site", "gp3")


def test_text_of_a_run_is_escaped_everywhere(tmp_path: Path) -> None:
    (name,) = write_history(tmp_path / "results", 1)
    file = tmp_path / "results" / name / "report.json"
    text = file.read_text().replace('"disk"', '"<script>alert(1)</script>|x"')
    file.write_text(text)
    (second,) = write_history(tmp_path / "results", 1, first=1)
    build_site(tmp_path / "results", tmp_path / "site", pairs=[(name, second)])
    for page in [*(tmp_path / "site").rglob("*.html"), *(tmp_path / "site").rglob("*.md")]:
        assert "<script>alert" not in page.read_text()


def test_a_damaged_report_is_named_and_stops_nothing(tmp_path: Path) -> None:
    names = write_history(tmp_path / "results", 3)
    (tmp_path / "results" / names[1] / "report.json").write_text('{"schema": 1, "run_id": ')
    (tmp_path / "results" / "20260101T000000Z-begun-1").mkdir()
    (tmp_path / "results" / "20260101T000000Z-begun-1" / "run.json").write_text("{}")
    (tmp_path / "results" / "no-run").mkdir()
    built = build_site(tmp_path / "results", tmp_path / "site")
    assert (built.runs, built.unreadable) == (4, 2)
    index = (tmp_path / "site" / "index.html").read_text()
    assert "truncated or is not JSON" in index
    assert "no report yet" in index


def test_a_damaged_index_is_made_again(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 too, as a block of a file that was being written when the power failed."""
    write_history(tmp_path / "results", 2)
    build_site(tmp_path / "results", tmp_path / "site")
    index = tmp_path / "site" / INDEX_FILE
    index.write_bytes(index.read_bytes()[:100] + b"\xab" * 100)
    again = build_site(tmp_path / "results", tmp_path / "site")
    assert (again.runs, again.unreadable, again.read) == (2, 0, 2)


def test_a_directory_of_somebody_else_is_refused_and_untouched(tmp_path: Path) -> None:
    write_history(tmp_path / "results", 1)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(Refused, match="volbench did not make it"):
        build_site(tmp_path / "results", tmp_path / "site")
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]
    assert (tmp_path / "site" / "index.html").read_text() == "mine"


def test_no_run_and_an_unknown_run_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        build_site(tmp_path / "nothing", tmp_path / "site")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no run"):
        build_site(tmp_path / "empty", tmp_path / "site")
    (name,) = write_history(tmp_path / "results", 1)
    with pytest.raises(UsageError, match="there is no run 'x'"):
        build_site(tmp_path / "results", tmp_path / "site", pairs=[(name, "x")])


def test_a_history_that_is_too_short_is_not_called_free_of_regressions(tmp_path: Path) -> None:
    write_history(tmp_path / "results", 1)
    build_site(tmp_path / "results", tmp_path / "site")
    assert "No regression" not in (tmp_path / "site" / "index.html").read_text()
    assert "<svg" not in page_of(tmp_path / "site", "disk")  # one run has no course


def test_histories_that_are_not_judged_are_counted(tmp_path: Path) -> None:
    write_history(tmp_path / "results", 10)
    shutil.copytree(next((tmp_path / "results").iterdir()), tmp_path / "results" / "other")
    report = tmp_path / "results" / "other" / "report.json"
    content = json.loads(report.read_text())
    report.write_text(json.dumps({**content, "suite": "other"}))
    build_site(tmp_path / "results", tmp_path / "site")
    index = (tmp_path / "site" / "index.html").read_text()
    assert "of 2 of 4 histories; the others have fewer than 10 runs." in index
