"""Every file of the repository that is made from the code: `make docs` writes them, a test compares them.

Pages that need measured runs (results/examples/*/report.md, the lab's page) are not among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from causes_page import causes_page
from man_page import man_page
from metrics_module import metrics_module
from modules_page import modules_page
from record_schemas import MODELS, schema_text
from results_page import results_page

from volbench.core.records.validation.result import Validation
from volbench.core.suite.docs import suite_docs
from volbench.core.suite.schema import suite_schema
from volbench.results.report.formats.validation import validation_markdown

ROOT = Path(__file__).resolve().parents[2]


def generated_files() -> Iterator[tuple[Path, str]]:
    """Each file, relative to the repository, with the text that it should have."""
    yield Path("suites/README.md"), suite_docs()
    yield Path("suites/suite.schema.json"), json.dumps(suite_schema(), indent=1) + "\n"
    page = Path("results/README.md")
    yield page, results_page((ROOT / page).read_text())
    page = Path("docs/causes.md")
    yield page, causes_page((ROOT / page).read_text())
    yield Path("runner/volbench/core/records/named_metrics.py"), metrics_module()
    yield Path("docs/modules.md"), modules_page()
    yield Path("docs/man/volbench.1"), man_page()
    for name in MODELS:
        yield Path(f"results/schema/{name}.schema.json"), schema_text(name)
    for path in sorted((ROOT / "results/examples/validation").glob("*/validation.json")):
        validation = Validation.model_validate_json(path.read_text())
        yield path.with_suffix(".md").relative_to(ROOT), validation_markdown(validation)


def write() -> list[Path]:
    """Write those that differ, and return them."""
    changed = [path for path, text in generated_files() if not _is(ROOT / path, text)]
    texts = dict(generated_files())
    for path in changed:
        (ROOT / path).write_text(texts[path])
    return changed


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    for written in write():
        print(f"written: {written}")  # noqa: T201 - run by hand
