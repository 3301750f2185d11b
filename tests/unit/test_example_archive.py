"""The archive of the examples' raw runs: pages come from the one that the repository names, or stay."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import example_archive
import pytest
from shared_assets import assets_of
from stored_files import REPORT, stored_text
from synthetic_run import build_run, two_volumes


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An archive of one example's run, and the directory of the examples."""
    directory = tmp_path_factory.mktemp("examples")
    runs, examples = directory / "runs", directory / "examples"
    (examples / "small/remedy").mkdir(parents=True)
    build_run(runs / "small/remedy", two_volumes(repeats=1))
    run = build_run(runs / "small", two_volumes(repeats=1))
    record = json.loads((run.path / "run.json").read_text())
    record["command"] += ["--out", "/home/somebody/runs"]
    (run.path / "run.json").write_text(json.dumps(record))
    (runs / "other").mkdir()
    example_archive.pack(runs, directory / "runs.tar.xz", examples)
    return directory / "runs.tar.xz", examples


def test_pages_are_rendered_from_the_archive(packed: tuple[Path, Path]) -> None:
    file, examples = packed
    assert example_archive.render(file, examples) == ("small", "small/remedy")
    assert sorted(path.name for path in (examples / "small/remedy").iterdir()) == ["report.json.xz", "report.md"]
    report = json.loads(stored_text(examples / "small" / REPORT))
    assert report["run_id"] == example_archive.read_index(examples).examples["small"]
    page = examples / "small/report.html"
    assert page.read_text().startswith("<!doctype html>")
    texts = [(examples / "assets" / name).read_text() for name in assets_of(page)]
    assert len(texts) == len(list((examples / "assets").iterdir())) > 3
    assert not re.search(r"<style|<script>", page.read_text())
    assert [sum(argument in text for text in texts) for argument in ("uPlot", "const Packed", "--ground")] == [
        2,
        1,
        1,
    ]
    pages = "".join((examples / "small" / name).read_text() for name in ("report.md", "report.html"))
    assert "/home/somebody" not in pages + json.dumps(report)


def test_the_same_runs_are_the_same_archive(packed: tuple[Path, Path], tmp_path: Path) -> None:
    file, examples = packed
    (tmp_path / "small/remedy").mkdir(parents=True)
    first = example_archive.read_index(examples)
    again = example_archive.pack(file.parent / "runs", tmp_path / "runs.tar.xz", tmp_path)
    assert (again.sha256, again.size_bytes) == (first.sha256, first.size_bytes)


def test_another_archive_is_refused_and_the_pages_stay(
    packed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, examples = packed
    example_archive.render(file, examples)
    before = {path: path.read_bytes() for path in examples.rglob("*") if path.is_file()}
    monkeypatch.setattr(example_archive.render, "__defaults__", (examples,))
    for wrong, text in ((tmp_path / "none.tar.xz", "no such file"), (tmp_path / "forged.tar.xz", "its sha256 is")):
        if "forged" in wrong.name:
            wrong.write_bytes(file.read_bytes()[:-1] + b"x")
        assert example_archive.main(["render", str(wrong)]) == 2
        message = capsys.readouterr().err
        assert text in message
        assert "the committed pages of small, small/remedy stay" in message
    assert {path: path.read_bytes() for path in examples.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["../outside", "/outside", "small/link"])
def test_nothing_is_written_outside_of_the_directory(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        member = tarfile.TarInfo(name)
        if name.endswith("link"):
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with (
        tarfile.open(tmp_path / "a.tar") as archive,
        pytest.raises(example_archive.ArchiveFault, match="no file below"),
    ):
        example_archive._extract(archive, tmp_path / "target")
    assert not (tmp_path / "outside").exists()


def test_runs_of_no_example_make_no_archive(tmp_path: Path) -> None:
    (tmp_path / "runs/unknown").mkdir(parents=True)
    with pytest.raises(example_archive.ArchiveFault, match="named like an example"):
        example_archive.pack(tmp_path / "runs", tmp_path / "runs.tar.xz", tmp_path)


def test_the_examples_stay_small() -> None:
    """They had 21 MB, and 6.4 MB before their pages shared what is the same in each."""
    sizes = {path: path.stat().st_size for path in example_archive.EXAMPLES.rglob("*") if path.is_file()}
    assert sum(sizes.values()) <= 5_000_000, sorted(sizes, key=lambda path: -sizes[path])[:5]
