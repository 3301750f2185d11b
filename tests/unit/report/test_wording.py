"""Labels of metrics: each explains a metric that can be reported."""

from __future__ import annotations

from volbench.records.metrics import CATALOGUE
from volbench.report.wording import GLOSSARY, label


def test_the_glossary_knows_only_catalogued_metrics() -> None:
    """No explanation for what can never be reported; a metric without one goes by its own name."""
    assert set(GLOSSARY) <= set(CATALOGUE)
    assert label("no_such_metric") == "no_such_metric"
