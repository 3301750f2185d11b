"""Which Debian packages are chosen, and that nothing is touched when nothing is missing."""

from pathlib import Path

import pytest

from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import Need, choose, install, parse_candidates, program
from volbench.errors import MissingPrerequisite
from volbench.machine.placement import capabilities

POLICY = """\
docker.io:
  Installed: (none)
  Candidate: 20.10.24+dfsg1-1+deb12u1+b6
  Version table:
     20.10.24+dfsg1-1+deb12u1+b6 500
        500 http://archive.example/debian bookworm/main amd64 Packages
iptables:
  Installed: 1.8.9-2
  Candidate: 1.8.9-2
  Version table:
 *** 1.8.9-2 500
mysql-server-core-8.4:
  Installed: (none)
  Candidate: (none)
  Version table:
"""


def need(*packages: str, met: bool = False, optional: bool = False) -> Need:
    return Need(met=lambda: met, packages=packages, reason=f"for {packages[0]}", optional=optional)


def test_candidates_are_what_apt_can_install() -> None:
    assert parse_candidates(POLICY) == {"docker.io", "iptables"}


def test_first_package_on_offer_is_taken() -> None:
    server = need("mysql-server-core", "mariadb-server-core")
    assert choose([server], frozenset({"mariadb-server-core"})) == {"mariadb-server-core": "for mysql-server-core"}
    both = frozenset({"mariadb-server-core", "mysql-server-core"})
    assert list(choose([server], both)) == ["mysql-server-core"]


def test_optional_need_without_package_is_passed_over() -> None:
    assert choose([need("docker-cli", optional=True)], frozenset()) == {}


def test_need_without_package_says_what_it_is_for() -> None:
    with pytest.raises(MissingPrerequisite, match=r"none of a, b[\s\S]*for a"):
        choose([need("a", "b")], frozenset({"c"}))


def test_nothing_is_said_or_run_when_nothing_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directories = Directories(root=tmp_path, state=tmp_path / "state", cache=tmp_path)
    install([need("a", met=True), need("b", optional=True)], directories, Console(yes=True))
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "state").exists()


def test_machine_without_apt_is_told_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    directories = Directories(root=tmp_path, state=tmp_path, cache=tmp_path)
    with pytest.raises(MissingPrerequisite, match=r"no apt-get[\s\S]*docker.io \(for docker.io\)"):
        install([need("docker.io")], directories, Console(yes=True))


def test_program_need_is_met_by_the_program_alone() -> None:
    assert program("sh", reason="always there").met()
    assert not program("no-such-program-anywhere", reason="never there").met()


def test_without_rights_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = capabilities.Means(name="root", present=False, evidence="neither root nor sudo")
    monkeypatch.setattr(capabilities, "root_rights", lambda: denied)
    (tmp_path / "apt-get").write_text("")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    directories = Directories(root=tmp_path, state=tmp_path, cache=tmp_path)
    with pytest.raises(MissingPrerequisite, match=r"their installation needs root[\s\S]*a or b \(for a\)"):
        install([need("a", "b")], directories, Console(yes=True))
