"""A release's files in an environment that has nothing else: installed by pip, and used."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volbench.errors import StepFailed
from volbench.machine.placement import capabilities

_COMMAND_S_MAX = 900.0
_UNDECIDED = 6
"""Exit code of a run without a verdict, which two repeats cannot have."""
_LACKS = 3
_PLUGIN_TEST = """
def test_a_volume_of_the_plugin(emulated_volume):
    volume = emulated_volume("ebs-gp3?size=1GiB")
    (volume.path / "written").write_text("text")
    assert (volume.path / "written").read_text() == "text"
"""
_SUITE = """\
schema: 2
name: trial
description: The shortest run of an installed release
underpowered: true
dataset: {tables: 1, rows: 2000}
steps:
  - {kind: oltp, name: read-write, test: oltp_read_write, threads: 2, warmup: 1s, duration: 2s}
repeats: 2
seed: 1
"""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment without anything but Python, and an empty directory to work in."""

    directory: Path

    def run(self, *arguments: str, codes: Sequence[int] = (0,)) -> tuple[int, str]:
        """Run a program of the environment; return exit code and output. Raise StepFailed for another code."""
        programs = self.directory / "environment" / "bin"
        proxies = {name: os.environ[name] for name in os.environ if name.lower().endswith(("_proxy", "_bundle"))}
        done = subprocess.run(
            [programs / arguments[0], *arguments[1:]],
            cwd=self.directory / "work",
            env={**proxies, "PATH": f"{programs}:{os.defpath}:/usr/sbin:/sbin", "HOME": str(Path.home())},
            timeout=_COMMAND_S_MAX,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode not in codes:
            raise StepFailed(
                "a file of the release does not work in a clean environment",
                where=" ".join(arguments),
                evidence=f"exit code {done.returncode}: " + "\n".join(done.stdout.splitlines()[-15:]),
            )
        return done.returncode, done.stdout


@contextmanager
def clean_environment() -> Iterator[Environment]:
    """Yield a new virtual environment; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="volbench-trial-") as text:
        directory = Path(text)
        directory.chmod(0o755)  # a server's user enters it
        (directory / "work").mkdir()
        venv.create(directory / "environment", with_pip=True, symlinks=True)
        yield Environment(directory=directory)


def try_release(directory: Path, version: str) -> list[str]:
    """Install a release's wheels, use them, and return a sentence for each thing tried. Raise StepFailed."""
    with clean_environment() as environment:
        return [
            _install(environment, directory),
            _ask_versions(environment, version),
            _load_lexer(environment, directory),
            _use_plugin(environment),
            _measure(environment),
        ]


def wheels_of_this_machine(directory: Path) -> list[Path]:
    """Return the wheels that pip installs on this machine."""
    endings = ("-none-any.whl", f"-linux_{platform.machine()}.whl")
    return sorted(file.resolve() for file in directory.glob("*.whl") if file.name.endswith(endings))


def _install(environment: Environment, directory: Path) -> str:
    wheels = wheels_of_this_machine(directory)
    extras = [f"{wheel}[pytest,server]" if wheel.name.endswith("-any.whl") else str(wheel) for wheel in wheels]
    environment.run("pip", "install", "--quiet", "--disable-pip-version-check", *extras)
    return "installed: " + ", ".join(wheel.name for wheel in wheels)


def _ask_versions(environment: Environment, version: str) -> str:
    _, text = environment.run("volbench", "--version")
    if version not in text.split():
        raise StepFailed("the wheel has another version", where="volbench --version", evidence=text.strip())
    return f"volbench --version: {text.strip()}"


def _load_lexer(environment: Environment, directory: Path) -> str:
    if not any(wheel.name.startswith("volbench_lexer-") for wheel in wheels_of_this_machine(directory)):
        return "SQL lexer: not tried, it has no wheel for this machine"
    environment.run("python", "-c", "from volbench.core.sql import library; library.fingerprint_of(b'SELECT 1', 0)")
    return "SQL lexer: loaded"


def _use_plugin(environment: Environment) -> str:
    (environment.directory / "work" / "test_trial.py").write_text(_PLUGIN_TEST, encoding="ascii")
    _, text = environment.run("pytest", "-rs", "-p", "no:cacheprovider", "test_trial.py")
    return "pytest plugin: " + " ".join(line for line in text.splitlines() if "SKIP" in line or " in " in line)


def _measure(environment: Environment) -> str:
    """Run the shortest suite on two emulated volumes; a missing server, image or right is a reason not to."""
    (environment.directory / "work" / "trial.yaml").write_text(_SUITE, encoding="ascii")
    target = "local" if capabilities.database_server().present else "docker"
    volumes = [word for name in ("a", "b") for word in ("--volume", f"{name}=emulated:ebs-gp3?size=2GiB")]
    code, text = environment.run(
        "volbench", "run", "trial.yaml", *volumes, "--target", target, "--yes", codes=(0, _UNDECIDED, _LACKS)
    )
    if code == _LACKS:
        return f"emulated run: not tried: {' '.join(text[text.rfind('volbench: ') :].split())}"
    return f"emulated run: done, exit code {code}"
