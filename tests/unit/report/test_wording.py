"""Labels of metrics: each metric that can be reported has one."""

from __future__ import annotations

import pytest

from volbench.records.base import Scalar
from volbench.records.metrics import CATALOGUE
from volbench.report.wording import label, load_text


def test_labels_are_those_of_the_catalogue() -> None:
    """A metric of another version goes by its own name."""
    assert {label(name) for name in CATALOGUE} == {metric.label for metric in CATALOGUE.values()}
    assert label("no_such_metric") == "no_such_metric"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"threads": 64, "rate": 100.0, "test": "oltp_read_write"}, "64 threads at 100/s"),
        ({"threads": 1, "rate": 2.5}, "1 thread at 2.5/s"),
        ({"rate": 12000}, "at 12,000/s"),
        ({"iodepth": 16, "numjobs": 1}, "16 deep"),
        ({"tool": "mysqldump"}, ""),
    ],
)
def test_a_load_in_words(parameters: dict[str, Scalar], text: str) -> None:
    assert load_text(parameters) == text
