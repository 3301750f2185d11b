"""The file of a cell, as `volbench cell` is given it."""

from __future__ import annotations

from pathlib import Path

from volbench.cli.cell import _behind_links


def test_a_mounted_configmap_holds_its_files_behind_links(tmp_path: Path) -> None:
    """As the kubelet writes it: cell.json -> ..data/cell.json, ..data -> ..2026_11_22."""
    version = tmp_path / "..2026_11_22"
    version.mkdir()
    (version / "cell.json").write_text("{}")
    (tmp_path / "..data").symlink_to(version.name)
    (tmp_path / "cell.json").symlink_to("..data/cell.json")
    assert _behind_links(tmp_path / "cell.json") == version / "cell.json"


def test_a_link_that_leads_elsewhere_is_left_to_be_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").write_text("{}")
    (tmp_path / "run" / "cell.json").symlink_to(tmp_path / "elsewhere")
    assert _behind_links(tmp_path / "run" / "cell.json") == tmp_path / "run" / "cell.json"
