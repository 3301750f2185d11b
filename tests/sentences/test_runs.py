"""Each number of a report's sentences against the raw files, over a matrix of runs; no page contradicts itself.

`raw_run` computes figures from result.json and the Parquet tables with nothing of volbench. A sentence that no test
here can read fails: a new one needs a recomputation.
"""

from __future__ import annotations

import html
import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from packed_rows import unpacked
from raw_run import RawStep, client_figures, figure, ratios, raw_steps
from sentence_runs import ALL, RUNS, build
from stated_headline import CLAUSES_MAX, LABELS, LOSS, METRIC, clauses_of, headline_remainder, notes_remainder
from synthetic_run import build_run

from sentences import NUMBER, SYMBOLS, plain, states, value_of
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import Report
from volbench.results.report.build import build_report
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.report.views.causes import ordered_findings
from volbench.results.report.views.picture import picture
from volbench.results.store.run_directory import RunDirectory

STATED = re.compile(rf"(?P<label>{METRIC}) (?P<change>{SYMBOLS})(?: \[[^\]]+\])?(?: \((?P<step>[^()]+)\))?")


@pytest.fixture(scope="module", params=ALL)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return build(request.param, tmp_path_factory.mktemp("sentences"))


@pytest.fixture(scope="module")
def report(directory: RunDirectory) -> Report:
    return build_report(directory)


@pytest.fixture(scope="module")
def steps(directory: RunDirectory) -> list[RawStep]:
    return raw_steps(directory.path)


@pytest.fixture(scope="module")
def page(directory: RunDirectory, report: Report) -> str:
    return plain(html.unescape(unpacked(render(report, directory, "html"))))


def is_ratio(steps: list[RawStep], row: tuple[str, str, str, str], change: str) -> bool:
    """Whether a stated change is the ratio of the geometric means: baseline, candidate, step, metric."""
    return any(states(change, ratio) for ratio in ratios(steps, *row))


def test_metrics_are_those_of_the_histograms(steps: list[RawStep]) -> None:
    """What all else rests on: throughput, p95 and p99 from the bins. A bin is 1.8 % wide."""
    loads = [step for step in steps if "tps" in step.metrics]
    assert loads or all({"cold_read_mib_per_s", "qps"} & step.metrics.keys() for step in steps)
    for step in loads[:6]:
        for name, value in client_figures(step).items():
            assert step.metrics[name] == pytest.approx(value, rel=0.02), (step.cell, name)


def test_every_change_of_the_sentence_is_that_of_the_cells(report: Report, steps: list[RawStep]) -> None:
    pairs = {(row.baseline, row.candidate) for row in report.comparisons}
    if len(pairs) != 1:
        return
    (baseline, candidate) = pairs.pop()
    only = {row.step for row in report.comparisons}
    for match in STATED.finditer(report.summary.sentence):
        step = match["step"] or next(iter(only))
        assert is_ratio(steps, (baseline, candidate, step, LABELS[match["label"]]), match["change"]), match[0]


def test_every_number_of_a_headline_is_recomputed(report: Report, steps: list[RawStep]) -> None:
    """What is left after the figures that were checked is no number."""
    assert report.summary.headline
    remainder = headline_remainder(report, steps)
    assert not NUMBER.search(remainder), f"{remainder!r} of {report.summary.headline!r}"


def test_every_number_of_a_headlines_notes_is_recomputed(report: Report, steps: list[RawStep]) -> None:
    remainder = notes_remainder(report, steps)
    assert not NUMBER.search(remainder), f"{remainder!r} of {report.summary.notes!r}"


def test_a_headline_has_three_clauses_at_most(report: Report) -> None:
    """Committed headlines had five to seven."""
    assert len(clauses_of(report.summary.headline)) <= CLAUSES_MAX, report.summary.headline


def test_counts_of_cells_are_those_of_the_files(report: Report, steps: list[RawStep]) -> None:
    text = " ".join((report.summary.headline, report.summary.sentence, *report.summary.caveats))
    excluded = re.findall(r"(\d+) of (\d+) step results (?:is|are) (?:disturbed or )?invalid", text)
    compared = re.findall(r"(\d+) step results? (?:was|were) disturbed from outside", text)
    for number, total in excluded:
        invalid = sum(not step.valid for step in steps)
        assert (int(number) + sum(map(int, compared)), int(total)) == (invalid, len(steps))
    for count, kinds in re.findall(r"(\d+) step results? \w+ disturbed from outside: (.*?)\. By its own", text):
        assert all(int(of_kind) <= int(count) for of_kind in re.findall(r" in (\d+)(?=;|$)", kinds)), kinds
    valid = {(step.volume, step.step): 0 for step in steps}
    for step in steps:
        valid[step.volume, step.step] += step.valid
    names = [volume.name for volume in report.volumes]
    if len(names) == 2 and (match := re.search(r"(\d+) against (\d+) valid cells", report.summary.sentence)):
        counts = {(valid[names[0], step], valid[names[1], step]) for _, step in valid}
        assert (int(match[1]), int(match[2])) in counts


def test_a_total_is_as_valid_as_its_least_part(report: Report, steps: list[RawStep]) -> None:
    """A total of which one phase was beyond its limits counted as valid."""
    rows = [row for row in report.cells if any(name.endswith("_total_s") for name in row.metrics)]
    for row in rows:
        (raw,) = [step for step in steps if (step.cell, step.step) == (row.cell_id, row.step)]
        assert (row.valid, bool(row.bounds)) == (raw.valid, raw.bounded)
        for name, (low, high) in row.bounds.items():
            value = raw.metrics[name]
            assert (low, high) == pytest.approx((value * (1 - raw.delayed_share), value))
    if rows:
        assert {(row.valid, bool(row.bounds)) for row in rows} == {(True, False), (False, False), (False, True)}


def test_headline_box_picture_and_first_cause_are_of_one_step_and_metric(report: Report) -> None:
    """The first box spoke of another step than the headline."""
    figure, text = report.summary.figure, plain(report.summary.headline)
    if figure is None:
        assert (report.summary.box, picture(report)) == ((), ())
        return
    assert re.search(rf"(?:in|step) {re.escape(figure.step)}(?![\w/-])", text), text
    assert CATALOGUE[figure.metric].label in text
    drawn = picture(report)
    assert {panel.step for panel in drawn} == {figure.step}
    assert figure.metric in {panel.metric for panel in drawn}
    others = {cell.step for cell in report.cells if not f"{figure.step}/".startswith(f"{cell.step}/")}
    for sentence in report.summary.box:
        assert not [step for step in others if re.search(rf"(?<![\w/-]){re.escape(step)}(?![\w/-])", sentence)]
    causes = [finding for finding in ordered_findings(report) if finding.cause != "none"]
    if any(finding.step == figure.step for finding in causes):
        assert causes[0].step == figure.step


def test_a_sentence_begins_with_the_figure_of_the_headline(report: Report) -> None:
    figure, text = report.summary.figure, report.summary.sentence
    stated = [(match["step"], LABELS[match["label"]]) for match in STATED.finditer(text)]
    if figure is None or not stated or len(report.volumes) > 2:
        return
    several = len({row.step for row in report.comparisons}) > 1
    assert all(step for step, _ in stated) == several
    assert (figure.step if several else None, figure.metric) in (stated[:1] if "worse in" not in text else stated)


def test_what_decided_nothing_is_not_made_again_as_it_was(
    request: pytest.FixtureRequest, report: Report, tmp_path: Path
) -> None:
    """The command of a run with one cell a volume repeated the indecision."""
    rows = [row for row in (report.effects or report.comparisons) if row.primary]
    is_open = bool(rows) and all(row.verdict == "inconclusive" for row in rows)
    needed = [row.runs_needed for row in rows if row.runs_needed is not None]
    deciding = report.reproduce[2:]
    assert bool(deciding) == (is_open and bool(needed))
    if not deciding:
        return
    remark, command = deciding
    assert shlex.split(command)[-2:] == ["--set", f"repeats={max(needed)}"]
    assert command.count("repeats=") == 1
    assert f"{max(needed)} cells of each" in remark
    name = request.node.callspec.params["directory"]
    if name == "one-cell":
        anew = build_report(build_run(tmp_path, replace(RUNS[name], repeats=max(needed))))
        assert anew.summary.verdict == "candidate_worse"


def test_figures_beside_volumes_are_those_of_the_files(report: Report, steps: list[RawStep]) -> None:
    assert report.figures
    for row in report.figures:
        of_setting = [step for step in steps if step.setting.items() <= row.parameters.items()]
        assert row.value == pytest.approx(figure(of_setting, row.volume, row.step, row.metric))


def test_the_picture_says_what_the_tables_say(page: str, steps: list[RawStep], report: Report) -> None:
    """Each lane's figure, from the page as it is read."""
    if report.summary.figure is None:
        return
    labels = re.findall(r'aria-label="([^"]+?): ([^"]+)"', page[: page.index("</section>")])
    assert labels
    for metric_label, text in labels:
        for volume in (row.name for row in report.volumes):
            match = re.search(rf"(?:^|; ){re.escape(volume)} ([\d,.]+)", text)
            if match:
                value = figure(steps, volume, report.summary.figure.step, LABELS[metric_label])
                assert value_of(match[1]) == pytest.approx(value, rel=0.006)


def statements(text: str) -> dict[tuple[str, str, str], set[str]]:
    """Step, metric and volume -> the figures that a Markdown report states of them: comparisons and ranking."""
    stated: dict[tuple[str, str, str], set[str]] = {}
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")[1:-1]]
        if line.startswith("| median |"):
            header = cells[1:]
        elif not line.startswith("|"):
            header = []
        elif header and ": " in cells[0]:
            step, metric = cells[0].rsplit(": ", 1)
            for volume, cell in zip(header, cells[1:], strict=True):
                figures = re.findall(r"[\d,.]*\d|–", cell)
                stated.setdefault((step, metric, volume), set()).add(figures[0])
        elif len(cells) == 8 and ": " in cells[2]:
            for cell in cells[2:4]:
                volume, value = cell.split(": ", 1)
                figures = re.findall(r"[\d,.]*\d|–", value)
                stated.setdefault((cells[0], re.sub(" [↑↓]$", "", cells[1]), volume), set()).add(figures[0])
    return stated


def test_a_page_has_one_figure_for_one_thing(report: Report, directory: RunDirectory, steps: list[RawStep]) -> None:
    stated = statements(plain(render(report, directory, "md")))
    if report.comparisons:
        assert stated
    for (row, metric, volume), figures in stated.items():
        assert len(figures) == 1, (row, metric, volume, figures)
        (text,) = figures
        if text != "–":
            value = figure(steps, volume, row.split(" ")[0], LABELS[metric])
            assert value_of(text) == pytest.approx(value, rel=0.006), (row, metric, volume)


def test_every_change_of_a_table_is_that_of_the_cells(report: Report, steps: list[RawStep]) -> None:
    for row in report.comparisons:
        if row.ratio is not None:
            known_names = ratios(steps, row.baseline, row.candidate, row.step, row.metric)
            assert any(row.ratio == pytest.approx(ratio, rel=1e-6) for ratio in known_names), (row.step, row.metric)


def test_cells_of_a_change_are_valid_or_said_to_be_disturbed(
    report: Report, directory: RunDirectory, steps: list[RawStep]
) -> None:
    rows = [line.split("|")[1:-1] for line in plain(render(report, directory, "md")).splitlines()]
    for step, metric, before, now, *_, counts in (row for row in rows if len(row) == 8 and ": " in row[3]):
        match = re.fullmatch(r" (\d+) / (\d+)(?:, (\d+) of them disturbed)? ", counts)
        assert match is not None, counts
        volumes, name = {side.split(":")[0].strip() for side in (before, now)}, LABELS[metric.strip(" ↑↓")]
        valid = [each for each in steps if each.volume in volumes and each.step == step.split()[0] and each.valid]
        measured = sum(name in each.metrics for each in valid)
        assert int(match[1]) + int(match[2]) - int(match[3] or 0) == measured, (step, metric, counts)


LOAD_LIMIT = re.compile(
    r"The load, not volume (?P<volume>[\w.-]+), limited step (?P<step>[\w-]+) \((?P<threads>\d+) threads\):"
    r" (?P<readers>[\d,.]+) reads were in flight on average"
    r" \((?P<reads>[\d,.]+) reads/s of (?P<ms>[\d,.]+) ms each\),"
    r" and the volume did (?P<used>[\d,.]+) of the (?P<allowed>[\d,.]+) operations/s that it allows"
    r" \((?P<share>[\d.]+) %\)\. About (?P<needed>[\d,]+) threads would reach that"
)


def test_a_load_that_was_the_limit_is_that_of_the_cells(
    request: pytest.FixtureRequest, report: Report, directory: RunDirectory, steps: list[RawStep]
) -> None:
    """Little's law, both for the threads and for the reads; what the volume allows is in the run's own options."""
    stated = [text for text in report.summary.caveats if text.startswith("The load, not volume")]
    assert bool(stated) == ("load-limited" in request.node.name), stated
    options = json.loads((directory.path / "run.json").read_text()).get("target_options", {})
    for text in stated:
        match = LOAD_LIMIT.match(plain(text))
        assert match is not None, text
        volume, step = match["volume"], match["step"]
        reads, writes, await_ms, tps, latency_ms = (
            figure(steps, volume, step, name)
            for name in ("iops_read", "iops_write", "read_await_ms", "tps", "latency_ms_mean")
        )
        allowed = float(re.findall(r"iops=(\d+)", options[f"{volume}.profile"])[0])
        threads = int(match["threads"])
        assert tps * latency_ms / 1000 == pytest.approx(threads, rel=0.1)
        assert 2 / 3 * threads <= reads * await_ms / 1000 <= 1.05 * threads
        expected = (
            reads * await_ms / 1000,
            reads,
            await_ms,
            reads + writes,
            allowed,
            100 * (reads + writes) / allowed,
        )
        numbers = [value_of(match[name]) for name in ("readers", "reads", "ms", "used", "allowed", "share")]
        assert numbers == pytest.approx(expected, rel=0.006)
        assert value_of(match["needed"]) == math.ceil(threads * allowed / (reads + writes))


IN_TERMINAL = re.compile(
    rf"^  (?P<step>[\w/-]+) (?P<metric>\w+): (?P<candidate>[\w.-]+) against (?P<baseline>[\w.-]+): "
    rf"medians (?P<before>[\d,.]+) -> (?P<now>[\d,.]+)(?: ?[\w/]+)?, change (?P<change>{SYMBOLS}) \[",
    re.MULTILINE,
)


def test_every_line_of_the_terminal_is_that_of_the_cells(report: Report, steps: list[RawStep]) -> None:
    text = plain("\n".join(summary_lines(report)))
    assert plain(report.summary.headline) in text
    tested = [
        row
        for row in report.comparisons
        if row.primary and row.ratio is not None and (row.ci is not None or row.plain_ci is not None)
    ]
    lines = list(IN_TERMINAL.finditer(text))
    assert len(lines) == len(tested), text
    for line in lines:
        of = (line["baseline"], line["candidate"], line["step"], line["metric"])
        assert is_ratio(steps, of, line["change"]), line[0]
        for volume, stated in ((line["baseline"], line["before"]), (line["candidate"], line["now"])):
            assert value_of(stated) == pytest.approx(figure(steps, volume, of[2], of[3]), rel=0.0051), line[0]


def test_a_page_has_one_figure_for_cold_reads(
    report: Report, directory: RunDirectory, steps: list[RawStep]
) -> None:
    """The headline had 5.05 times, the section of cold and warm reads 5.06."""
    pairs = {(row.baseline, row.candidate) for row in report.comparisons if row.metric == "cold_read_mib_per_s"}
    text = plain(render(report, directory, "md"))
    stated = re.findall(
        r"cold against cold: \S+ looks ([\d,.]+ % (?:faster|slower)|[\d,./]+(?: times)? as fast|as fast)", text
    )
    assert len(stated) == len(pairs)
    for figure_text in stated:
        result = [1 / each for pair in pairs for each in ratios(steps, *pair, "cold", "cold_read_mib_per_s")]
        pace = "unchanged" if figure_text == "as fast" else figure_text.replace("as fast", "as high")
        pace = pace.replace("faster", "higher").replace("slower", "lower")
        assert any(states(pace, each) for each in result)


def test_losses_of_a_crash_test_are_those_of_all_cells(
    report: Report, directory: RunDirectory, steps: list[RawStep]
) -> None:
    text = plain(render(report, directory, "md"))
    for volume in {step.volume for step in steps if "lost_commits" in step.metrics}:
        cells = [step.metrics for step in steps if step.volume == volume and "lost_commits" in step.metrics]
        lost, of = (sum(cell[name] for cell in cells) for name in ("lost_commits", "acknowledged_commits"))
        assert text.splitlines()[2].startswith(f"**{plain(report.summary.headline)}")
        stated = [each for each in LOSS.finditer(report.summary.headline) if each["volume"] == volume]
        assert all((value_of(each["lost"]), value_of(each["of"])) == (lost, of) for each in stated)
        is_named = re.search(rf"not safe: .*\b{volume}\b.* lost acknowledged commits", report.summary.headline)
        assert stated or is_named
        (caveat,) = re.findall(rf"[Vv]olume {volume} lost ([\d,]+) of ([\d,]+)", text)
        (row,) = re.findall(rf"\| {volume} \| .*\| ([\d,]+) of ([\d,]+) \| ([\d.]+) s \| 0 \| ([\d.]+) s \|", text)
        assert [value_of(each) for each in (*caveat, *row)] == pytest.approx(
            [
                lost,
                of,
                lost,
                of,
                max(cell["lost_s"] for cell in cells),
                figure(steps, volume, "crash", "recovery_s"),
            ],
            rel=0.0051,
        )


def test_bounds_of_disturbed_cells_are_those_of_their_delay(page: str, steps: list[RawStep]) -> None:
    """A throughput lies between what was measured and that over what the delay left; nobody reads `0 ms to`."""
    assert " 0 ms to " not in page
    assert not re.search(r"at most [\d.]+ % to", page)  # a bound is one number
    delayed = {step.cell: step for step in steps if step.bounded}
    for cell, low, high in re.findall(
        r"([\w.-]{1,80}) read-write: other work.{0,90}?transactions/s ([\d,.]+) to ([\d,.]+)", page
    ):
        tps, share = delayed[cell].metrics["tps"], delayed[cell].delayed_share
        assert (value_of(low), value_of(high)) == pytest.approx((tps, tps / (1 - share)), rel=0.006)


def test_no_interval_is_without_width(page: str) -> None:
    """`982 [982, 982]` of one cell, and `0 % [0 %, 0 %]` of cells whose quantile lies in one bin, say too much."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\[([^\[\],]{1,20}), \1\]", text)


def test_a_pages_words_for_its_estimator_are_true(page: str) -> None:
    """Comparisons and effects of a run are of means (docs/statistics.md), and no rank or permutation is in them."""
    assert not re.search(r"Hodges|permutation", page)


def test_pieces_of_evidence_have_their_value_in_their_text(report: Report) -> None:
    """A row's value is what programs read, its text what people read."""
    for finding in report.findings:
        for row in finding.evidence:
            if isinstance(row.value, float) and row.metric in ("iops", "mib_per_s", "cells"):
                numbers = [figure.strip() for figure in NUMBER.findall(row.text) if figure[-1].isdigit()]
                assert any(value_of(number) == pytest.approx(row.value, rel=0.006) for number in numbers), row.text


def test_what_was_checked_fails_for_a_wrong_figure(report: Report, steps: list[RawStep]) -> None:
    """The checks above can fail: a change that is 3 % off is none of these cells'."""
    for row in report.comparisons:
        if row.ratio is not None and row.primary:
            off = ratios(steps, row.baseline, row.candidate, row.step, row.metric)[0] * 1.03
            text = f"× {off:.4g}" if off > 1 else f"× 1/{1 / off:.4g}"
            assert not is_ratio(steps, (row.baseline, row.candidate, row.step, row.metric), text)


def test_files_are_read_without_volbench() -> None:
    """An independent computation imports nothing of what it checks."""
    for name in ("raw_run", "sentences"):
        text = (Path(__file__).parents[1] / "support" / f"{name}.py").read_text()
        assert not re.search(r"^\s*(?:from|import) volbench", text, re.MULTILINE)
