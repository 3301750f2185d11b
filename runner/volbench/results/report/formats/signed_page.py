"""Pages apart from the report: a decision by a policy, a validation, a document of sections."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment

from volbench.core.base.text import counted
from volbench.results.report.formats.engine import page_engine
from volbench.results.report.formats.template import code_marked


def signed_page(template: str, **values: Any) -> str:
    """Return a template of report/page with its values, all escaped. A missing value is an error."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = page_engine("volbench.results.report", keep_trailing_newline=True)
    environment.filters["counted"] = counted
    environment.filters["code_marked"] = code_marked
    return environment
