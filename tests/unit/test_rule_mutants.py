"""The tool that asks whether tests hold the figures of `explain`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import rule_mutants

SOURCE = (
    '"""Numbers."""\n\nSLOW_MS = 2.0\nSAMPLES, SPREAD = 3, 0.5\nNAME, ON, NOTHING = "a", True, 0.0\nlocal = 7.0\n'
)
MODULE = Path("module.py")
LIMIT = """SLOW_MS, RANGE = 2.0, (0.5, 8)


def is_slow(each_ms: float) -> bool:
    return each_ms >= SLOW_MS


def fits(size: float) -> bool:
    low, high = RANGE
    return low <= size <= high
"""
TESTS = """from package.reader import reads_slow
from package.limit import fits


def test_just_below() -> None:
    assert not reads_slow(1.9)


def test_just_above() -> None:
    assert reads_slow(2.1)


def test_fits() -> None:
    assert fits(7.9)
"""


def test_each_number_of_a_constant_is_changed_both_ways_and_nothing_else() -> None:
    names = [(mutant.name, mutant.text) for mutant in rule_mutants.mutants(MODULE, SOURCE)]
    assert names == [
        ("SLOW_MS", "2.6"),
        ("SLOW_MS", repr(2.0 / 1.3)),
        ("SAMPLES", "4"),
        ("SAMPLES", "2"),
        ("SPREAD", "0.65"),
        ("SPREAD", repr(0.5 / 1.3)),
    ]
    both = [mutant.text for mutant in rule_mutants.mutants(MODULE, "COUNT = 3\nONE = 1\n")]
    assert both == ["4", "2", "2", "0"], "a whole number moves by one at least"
    assert [mutant.value((0.5, 2)) for mutant in rule_mutants.mutants(MODULE, "RANGE = (0.5, 2)\n")] == [
        (0.65, 2),
        (0.5 / 1.3, 2),
        (0.5, 3),
        (0.5, 1),
    ]


def test_only_what_a_test_asks_for_is_noticed(tmp_path: Path) -> None:
    """In a package of its own: a limit read through another module is held from both sides, a range from one."""
    package, tests = tmp_path / "runner/volbench/results/explain", tmp_path / "test_limit.py"
    package.mkdir(parents=True)
    (package / "limit.py").write_text(LIMIT)
    (tmp_path / "package").symlink_to(package)
    (package / "reader.py").write_text(
        "from package import limit\n\n\ndef reads_slow(ms: float) -> bool:\n    return ms >= limit.SLOW_MS\n"
    )
    tests.write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    script = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(Path(rule_mutants.__file__).parent)!r})
import pytest, rule_mutants
from mutant_tests import Plugin
root = Path({str(tmp_path)!r})
rule_mutants.ROOT = root
rule_mutants.dotted = lambda path: f"package.{{path.stem}}"
rule_mutants._is_ours = lambda module: getattr(module, "__name__", "").startswith(("package.", "test_limit"))
path = Path("runner/volbench/results/explain/limit.py")
listed = [*rule_mutants.mutants(path, (root / path).read_text())]
body = lambda plugin: rule_mutants.try_all(plugin, listed, root / "state.json", 600.0)
pytest.main(["-q", "-p", "no:cacheprovider", str(root / "test_limit.py")],
            plugins=[Plugin(package=root / "package", body=body)])
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    verdicts = json.loads((tmp_path / "state.json").read_text())
    noticed = {key.partition(":")[2]: value for key, value in verdicts.items()}
    assert noticed == {
        "SLOW_MS:0=2.6": True,
        f"SLOW_MS:0={2.0 / 1.3}": True,
        "RANGE:0=0.65": False,
        f"RANGE:0={0.5 / 1.3}": False,
        "RANGE:1=10": False,
        "RANGE:1=6": True,
    }


def test_what_has_a_verdict_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rule_mutants.PACKAGE / "quantile.py"
    listed = [*rule_mutants.mutants(path, (rule_mutants.ROOT / path).read_text())]
    state, page = tmp_path / "state.json", tmp_path / "page.md"
    state.write_text(json.dumps({mutant.key: index > 0 for index, mutant in enumerate(listed)}))
    monkeypatch.setattr(pytest, "main", None)
    arguments = ["--state", str(state), "--only", "explain/quantile", "--table", str(page)]
    monkeypatch.setattr(sys, "argv", ["rule_mutants", *arguments])
    assert rule_mutants.main() == 0
    assert f"{len(listed) - 1} of {len(listed)} changes are noticed; 0 of" in capsys.readouterr().out
    assert f"| **all** | {len(listed)} | {len(listed)} | {len(listed) - 1} |" in page.read_text()
    assert f"| quantile.py | {listed[0].name} |" in page.read_text()
