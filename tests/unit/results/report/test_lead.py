"""A report of one volume begins with the cause: its words, share, confidence, window and advice; on real runs."""

from __future__ import annotations

import pytest
from kernel_throttle import RUNS

from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.store.run_directory import RunDirectory

WORDS = {
    "above-read-800": ("the server's reads are limited to 800 IOPS (12.5 MiB/s)", "Look above the volume"),
    "device-read-800": ("One of two causes: the volume is at its limit of", "and no more"),
    "device-read-12mib": ("One of two causes: the volume is at its limit of", "This decides: fio"),
}


@pytest.mark.parametrize("name", WORDS)
def test_terminal_markdown_and_page_begin_with_the_cause(name: str) -> None:
    directory = RunDirectory(RUNS / name)
    report = build_report(directory)
    sentence = report.summary.sentence
    assert "nothing to compare" not in sentence
    assert all(arguments.lower() in sentence.lower() for arguments in WORDS[name])
    assert "of the latency" in sentence
    assert ", confidence " in sentence
    assert "of the run." in sentence
    assert "medians: transactions/s" in sentence
    assert summary_lines(report)[2] == sentence
    start = sentence[:40]
    assert start in markdown(report).split("\n")[4].replace("\\", "")
    assert start in render(report, directory, "html")


def test_a_healthy_volume_is_said_to_be_so_or_what_else_it_is() -> None:
    sentence = build_report(RunDirectory(RUNS / "clean")).summary.sentence
    assert sentence.startswith("The server has no CPU left in step read-write")
