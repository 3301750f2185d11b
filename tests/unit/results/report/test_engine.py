"""The engine of pages keeps compiled templates where Python keeps compiled modules, and does without."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemBytecodeCache, nodes

import volbench.results.site.pages as site_pages
from volbench.results.report.formats import signed_page
from volbench.results.report.formats.engine import page_engine
from volbench.results.report.formats.template import template_environment

SITE = "volbench.results.site"
TEMPLATE = "base.html.j2"


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python keeps compiled modules."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "compiled"


def kept(prefix: Path) -> list[str]:
    return [path.name for path in prefix.rglob("*") if path.is_file()]


def contents(prefix: Path) -> set[bytes]:
    return {path.read_bytes() for path in prefix.rglob("*") if path.is_file()}


def test_a_template_is_compiled_once_for_all_processes(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_engine(SITE).get_template(TEMPLATE)
    assert len(kept(prefix)) == 1
    monkeypatch.setattr(Environment, "compile", lambda *_: pytest.fail("compiled again"))
    assert page_engine(SITE).get_template(TEMPLATE).name == TEMPLATE


@pytest.mark.parametrize("package", [SITE, "volbench.results.report"])
def test_compiled_templates_are_not_among_the_templates(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps modules next to their sources unless told otherwise; the site copies all of its templates."""
    monkeypatch.setattr(sys, "pycache_prefix", None)
    engine = page_engine(package)
    templates = Path(str(files(package))) / "page"
    assert isinstance(engine.bytecode_cache, FileSystemBytecodeCache)
    assert templates.is_dir()
    assert not Path(engine.bytecode_cache.directory).is_relative_to(templates)


def test_other_options_and_another_text_are_compiled_by_themselves(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_engine(SITE).get_template(TEMPLATE)
    page_engine(SITE, lstrip_blocks=True).get_template(TEMPLATE)
    assert len(kept(prefix)) == 2
    engine = page_engine(SITE)
    assert engine.loader is not None
    source, file, _ = engine.loader.get_source(engine, TEMPLATE)
    monkeypatch.setattr(engine.loader, "get_source", lambda *_: (f"{source}{{{{ 1 }}}}", file, lambda: True))
    before = contents(prefix)
    engine.get_template(TEMPLATE)
    assert len(contents(prefix) - before) == 1
    assert len(kept(prefix)) == 2


@pytest.mark.parametrize("refusal", ["PYTHONDONTWRITEBYTECODE", "no directory", "damaged"])
def test_pages_are_made_where_nothing_can_be_kept(
    refusal: str, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if refusal == "no directory":
        prefix.write_text("a file")
    elif refusal == "damaged":
        page_engine(SITE).get_template(TEMPLATE)
        (compiled,) = (path for path in prefix.rglob("*") if path.is_file())
        compiled.write_bytes(b"no compiled template")
    else:
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert page_engine(SITE).get_template(TEMPLATE).name == TEMPLATE
    assert refusal == "damaged" or kept(prefix) == []


@pytest.mark.parametrize(
    "engine",
    [template_environment, signed_page._environment, site_pages._environment],
    ids=lambda engine: engine.__module__,
)
def test_no_template_has_a_constant_that_a_filter_changes(engine: object) -> None:
    """It would be computed when the template is compiled, by the filter's code of that time."""
    environment = engine()  # type: ignore[operator]
    for name in environment.list_templates():
        if not name.endswith(".j2"):
            continue
        tree = environment.parse(environment.loader.get_source(environment, name)[0])
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            context = nodes.EvalContext(environment, name)
            with pytest.raises(nodes.Impossible):
                node.as_const(context)
