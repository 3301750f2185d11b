"""`kubectl volbench`: the wrapper with and without volbench, and what `make krew` packs."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "k8s" / "krew" / "kubectl-volbench"


class Shell:
    """The wrapper as krew installs it, among programs that only say how they were called."""

    def __init__(self, root: Path) -> None:
        self.bin, self._store = root / "bin", root / "store"
        for directory in (self.bin, self._store):
            directory.mkdir()
        for file in (PLUGIN, *PLUGIN.parents[1].glob("runner/fetch.*")):
            shutil.copy(file, self._store)
        for name in ("sh", "awk", "sed", "dirname", "readlink", "mkdir", "tar"):
            self.program(name, f'exec {shutil.which(name)} "$@"')

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!{shutil.which('sh')}\n{script}\n")
        (self.bin / name).chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        installed = self.bin / "kubectl-volbench"
        installed.symlink_to(self._store / "kubectl-volbench")
        try:
            return subprocess.run(
                [str(installed), *arguments],
                env={"PATH": str(self.bin)},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            installed.unlink()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_with_volbench_it_is_volbench_k8s(shell: Shell) -> None:
    shell.program("volbench", 'echo "$@"')
    assert shell.run("list", "-n", "team").stdout == "k8s list -n team\n"


def test_with_kubectl_alone_logs_are_followed_from_their_start(shell: Shell) -> None:
    """The first attempt finds no pod yet."""
    begun = shell.bin / "begun"
    shell.program("kubectl", f'[ -e {begun} ] || {{ : >{begun}; exit 1; }}; echo "$@"')
    shell.program("sleep", "exit 0")
    assert shell.run("logs", "-n", "team", "vb-1").stdout == "logs -n team -f job/vb-1\n"
    assert shell.run("logs").stdout == "logs -n volbench -f job/volbench-runner\n"


def test_no_terminal_obeys_a_pods_log(shell: Shell) -> None:
    shell.program("kubectl", r"printf 'a\033]0;title\007\tb\n\n\302\23331m gr\303\274n\r\n'")
    assert shell.run("logs").stdout == "a?]0;title?\tb\n?31m grün?\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("fetch",), "--namespace volbench get job volbench-runner"),
        (("fetch", "vb-1", "-n", "team"), "--namespace team get job vb-1"),
        (("fetch", "--namespace", "team", "vb-1", "here"), "--namespace team get job vb-1"),
    ],
)
def test_with_kubectl_alone_results_are_fetched(shell: Shell, arguments: tuple[str, ...], expected: str) -> None:
    shell.program("kubectl", 'echo "$@" >&2; exit 9')
    assert shell.run(*arguments).stderr.startswith(expected)


@pytest.mark.parametrize(
    "arguments", [(), ("submit", "x.yaml"), ("logs", "-n"), ("logs", "-x"), ("logs", "a", "b", "c")]
)
def test_what_needs_volbench_or_is_no_command_is_said(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell.program("kubectl", "exit 9")
    ended = shell.run(*arguments)
    assert (ended.returncode, "usage: kubectl volbench" in ended.stderr) == (2, True)


def test_the_archive_is_what_the_manifest_says(tmp_path: Path) -> None:
    """By krew's rules: name of the file, version with v, a checksum of the archive, a licence in it."""
    for name in ("Makefile", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("krew", "runner"):
        shutil.copytree(ROOT / "k8s" / name, tmp_path / "k8s" / name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(
        ["make", "-s", "krew"], cwd=tmp_path, check=True, capture_output=True, env=environment, timeout=60
    )
    manifest: dict[str, Any] = YAML(typ="safe").load((tmp_path / "dist" / "volbench.yaml").read_text())
    archive = tmp_path / "dist" / "kubectl-volbench.tar.gz"
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "volbench")
    assert manifest["spec"]["version"] == "v0.2.0"
    assert len(manifest["spec"]["shortDescription"]) <= 50
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as packed:
        assert sorted(packed.getnames()) == sorted(file["from"] for file in platform["files"])
        assert packed.getmember(platform["bin"]).mode & 0o111
    assert "LICENSE" in {file["from"] for file in platform["files"]}


def add(
    tar: tarfile.TarFile, name: str, content: bytes = b"", *, link: str = "", kind: bytes = tarfile.REGTYPE
) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.linkname, info.type = len(content), link, tarfile.SYMTYPE if link else kind
    tar.addfile(info, io.BytesIO(content))


@pytest.fixture
def pod(shell: Shell, tmp_path: Path) -> Path:
    """The archive that the pod sends."""
    archive = tmp_path / "archive.tar"
    shell.program("kubectl", f'case "$*" in *" exec "*) exec {shutil.which("cat")} {archive} ;; *) echo x ;; esac')
    for name in ("mktemp", "find", "cp", "rm", "head", "basename", "tr"):
        shell.program(name, f'exec {shutil.which(name)} "$@"')
    return archive


def test_a_pods_results_are_files_and_directories(shell: Shell, pod: Path, tmp_path: Path) -> None:
    with tarfile.open(pod, "w") as tar:
        add(tar, "./run/run.json", b"{}")
        add(tar, "./run/cells/01-a/result.json", b"{}")
    into = tmp_path / "results"
    for _ in range(2):  # again while the run goes on
        done = shell.run("fetch", "vb-1", str(into))
        assert done.returncode == 0, done.stderr
    files = sorted(str(path.relative_to(into)) for path in into.rglob("*") if path.is_file())
    assert files == ["run/cells/01-a/result.json", "run/run.json"]


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "file below a link"])
def test_a_pod_puts_nothing_else_than_files_anywhere(shell: Shell, pod: Path, tmp_path: Path, kind: str) -> None:
    """A link of a first fetch would be followed by the second one."""
    outside = tmp_path / "outside"
    outside.mkdir()
    into = tmp_path / "results"
    with tarfile.open(pod, "w") as tar:
        add(tar, "./run.json", b"{}")
        match kind:
            case "pipe":
                add(tar, "./pipe", kind=tarfile.FIFOTYPE)
            case "hard link":
                info = tarfile.TarInfo("./other")
                info.type, info.linkname = tarfile.LNKTYPE, "./run.json"
                tar.addfile(info)
                add(tar, "./link", link=str(outside))
            case _:
                add(tar, "./link", link=str(outside))
                if kind == "file below a link":
                    add(tar, "./link/file", b"hostile")
    for _ in range(2):
        done = shell.run("fetch", "vb-1", str(into))
        output = "Cannot open" if kind == "file below a link" else "nothing was taken"  # tar's own words, or ours
        assert done.returncode != 0
        assert output in done.stderr
    assert list(outside.iterdir()) == []
    assert list(into.iterdir()) == []
