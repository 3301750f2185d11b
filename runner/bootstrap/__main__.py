"""Command line of the set-up."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

from bootstrap import cluster, engine, environment, extras, images, local
from bootstrap.console import Console, open_console
from bootstrap.directories import Directories, find_directories
from bootstrap.packages import install
from volbench.core.base.text import escape_controls
from volbench.errors import EXIT_INTERRUPTED, MissingPrerequisite, Refused, VolbenchError
from volbench.machine.placement.docker.image_names import images_ready

COMMANDS = {
    "demo": "prerequisites of a run: Python environment, Docker engine and images, or the local target's programs",
    "test": "the same with development packages, MariaDB, a local server and a browser, for the tests",
    "python": "the Python environment only, with development packages, and the SQL lexer",
    "engine": "a Docker engine that answers",
    "images": "the images, MySQL and MariaDB",
    "local": "server and tools for the local target",
    "lab-tools": "what the lab of causes injects them with",
    "posix-suites": "fsx and pjdfstest, compiled for the tests of emulated volumes",
    "cluster": "a Kubernetes cluster that answers: the current context's, else one on this machine",
    "lock": "resolve the lock files again",
    "target": "print which target this machine can run: docker or local",
    "second-volume": "print the SPEC of the demo's second volume",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one of COMMANDS and return volbench's documented exit code."""
    epilog = "\n".join(f"{command:13} {text}" for command, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="bootstrap", description=__doc__, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("word", choices=list(COMMANDS))
    command = parser.parse_args(arguments).word
    if command == "target":
        print("docker" if images_ready().present else "local")
        return 0
    directories = find_directories()
    if command == "second-volume":
        print(extras.second_demo_volume(directories))
        return 0
    console = open_console()
    try:
        with directories.locked(on_wait=console.say):
            _do(command, directories, console)
    except VolbenchError as error:
        print(escape_controls(str(error)), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; completed steps stay", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _do(command: str, directories: Directories, console: Console) -> None:
    match command:
        case "demo":
            set_up(directories, console, flavors=["mysql"], development=False)
        case "test":
            set_up(directories, console, flavors=["mysql", "mariadb"], development=True)
        case "python":
            install(environment.VENV_NEEDS, directories, console)
            environment.ensure_environment(directories, console, development=True)
            extras.try_lexer(directories, console)
        case "engine":
            console.say(engine.ensure_engine(directories, console).evidence)
        case "images":
            install(environment.VENV_NEEDS, directories, console)
            extras.try_lexer(directories, console)
            engine.ensure_engine(directories, console)
            console.say("images: " + ", ".join(images.ensure_images(directories, console, ["mysql", "mariadb"])))
        case "cluster":
            cluster.ensure_cluster(directories, console)
        case "posix-suites":
            extras.try_compiler(directories, console)
            extras.try_posix_suites(directories, console)
        case "lab-tools":
            install(extras.LAB_TOOLS, directories, console)
        case "local":
            console.say(local.ensure_local(directories, console).evidence)
        case _:
            environment.write_locks(directories, console)


def set_up(directories: Directories, console: Console, *, flavors: list[str], development: bool) -> None:
    """Set up environment and containers; without containers, print the reason and prepare the local target.

    For development the tests' programs are installed as well: packages while images are built, which wait for
    downloads most of their time, and suites are compiled after the emulator.
    """
    install(environment.VENV_NEEDS, directories, console)
    extras.try_compiler(directories, console)
    extras.try_lexer(directories, console)  # before the tools image, which has it
    tools = cache(partial(_try_test_tools, directories, console, development=development))
    with ThreadPoolExecutor(max_workers=2) as pool:
        packages = pool.submit(environment.ensure_environment, directories, console, development=development)
        daemon = pool.submit(_compile, directories, console, development=development)
        try:
            answer = engine.ensure_engine(directories, console)
            names = images.ensure_images(
                directories, console, flavors, python_ready=packages.result, meanwhile=tools
            )
            packages.result()
            console.say(f"ready, with containers: {answer.evidence}, {', '.join(names)}")
        except (MissingPrerequisite, Refused) as lack:
            tools()
            packages.result()
            console.say(f"containers are not available:\n{lack}")
            console.say(f"ready, with the local target: {local.ensure_local(directories, console).evidence}")
        daemon.result()


def _try_test_tools(directories: Directories, console: Console, *, development: bool) -> None:
    if development:
        extras.try_test_tools(directories, console)


def _compile(directories: Directories, console: Console, *, development: bool) -> None:
    extras.try_emulator(directories, console)
    if development:
        extras.try_posix_suites(directories, console)


if __name__ == "__main__":
    sys.exit(main())
