"""Labels of metrics: each metric that can be reported has one."""

from __future__ import annotations

from volbench.records.metrics import CATALOGUE
from volbench.report.wording import label


def test_labels_are_those_of_the_catalogue() -> None:
    """A metric of another version goes by its own name."""
    assert {label(name) for name in CATALOGUE} == {metric.label for metric in CATALOGUE.values()}
    assert label("no_such_metric") == "no_such_metric"
