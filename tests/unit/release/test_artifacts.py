"""Files of a release: the same bytes wherever and whenever they are built, and told apart from others."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from release import artifacts
from release.__main__ import main
from volbench import __version__
from volbench.errors import Refused, UsageError

ROOT = Path(__file__).parents[3]
SOURCE_EPOCH = 1_700_000_000


def built(directory: Path, **environment: str) -> dict[str, bytes]:
    """The files of a release of this checkout, in a process of its own with another environment and umask."""
    code = (
        "import sys; from pathlib import Path; from release import artifacts\n"
        "with artifacts.exported(Path(sys.argv[1]), int(sys.argv[3])) as (source, epoch):\n"
        "    artifacts.build(source, epoch, Path(sys.argv[2]))\n"
        "artifacts.write_checksums(Path(sys.argv[2]))\n"
    )
    directory.mkdir()
    subprocess.run(
        [sys.executable, "-c", code, ROOT, directory, str(SOURCE_EPOCH)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "runner"), **environment},
        umask=0o077 if environment else 0o022,
        check=True,
        timeout=300,
    )
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("release") / "one"
    built(directory)
    return directory


def test_two_builds_are_equal_byte_for_byte(release: Path, tmp_path: Path) -> None:
    """Also with another umask, clock zone, language and order of sets."""
    second = built(tmp_path / "two", TZ="Asia/Kathmandu", LC_ALL="C", PYTHONHASHSEED="7", SOURCE_DATE_EPOCH="1")
    assert second == {file.name: file.read_bytes() for file in release.iterdir()}
    assert sorted(second) == [
        "SHA256SUMS",
        f"volbench-{__version__}-py3-none-any.whl",
        f"volbench-{__version__}.tar.gz",
    ]


def test_the_source_archive_makes_the_same_wheel(release: Path, tmp_path: Path) -> None:
    (archive,) = release.glob("*.tar.gz")
    (wheel,) = release.glob("*.whl")
    with tarfile.open(archive) as tar:
        epoch = int(tar.getmembers()[0].mtime)
        assert {int(member.mtime) for member in tar.getmembers()} == {epoch}
        assert not any(member.issym() and member.linkname.startswith(("/", "..")) for member in tar.getmembers())
    subprocess.run(["tar", "-x", "-f", archive, "-C", tmp_path], check=True)
    (tree,) = tmp_path.iterdir()
    (tmp_path / "out").mkdir()
    with artifacts.exported(tree, epoch) as (source, _):
        (again,) = artifacts.build(source, epoch, tmp_path / "out", targets=("wheel",))
    assert again.read_bytes() == wheel.read_bytes()
    with zipfile.ZipFile(again) as opened:
        names = opened.namelist()
    assert "volbench/suites/quick.yaml" in names
    assert not [name for name in names if name.startswith(("tests", "release", "bootstrap"))]


def test_what_is_not_committed_has_no_part(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "committed").write_text("x")
    git = ["git", "-C", str(checkout), "-c", "user.name=x", "-c", "user.email=x@volbench.invalid"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True, timeout=60)
    (checkout / "secret.env").write_text("password")
    (checkout / "committed").write_text("changed")
    with artifacts.exported(checkout) as (tree, epoch):
        assert {file.name: file.read_text() for file in tree.iterdir()} == {"committed": "x"}
        assert epoch > SOURCE_EPOCH
    assert len(artifacts.uncommitted(checkout)) == 2


def test_a_source_without_a_commit_needs_its_time(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"), artifacts.exported(tmp_path):
        pass


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [("a.whl", "other", "a.whl differs"), ("b.whl", "extra", "b.whl is not listed"), ("a.whl", None, "is missing")],
)
def test_a_file_that_is_not_the_release_s_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None, fault: str
) -> None:
    (tmp_path / "a.whl").write_text("wheel")
    artifacts.write_checksums(tmp_path)
    (tmp_path / "provenance.sigstore.json").write_text("made from the checksums")
    assert main(["verify", str(tmp_path)]) == 0
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(Refused, match=fault):
        artifacts.verify(tmp_path)
    assert main(["verify", str(tmp_path)]) == Refused.exit_code
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "no two blanks\n", "\udc80"])
def test_checksums_that_cannot_be_read_are_a_mistake(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / artifacts.CHECKSUMS).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match="no readable SHA256SUMS"):
        artifacts.verify(tmp_path)


def test_checksums_are_those_of_sha256sum(release: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", artifacts.CHECKSUMS],
        cwd=release,
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": OK") == 2
