"""Command line of the set-up."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from bootstrap import cluster, engine, environment, extras, images, local
from bootstrap.console import Console, open_console
from bootstrap.packages import install
from bootstrap.places import Places, find_places
from volbench.errors import EXIT_INTERRUPTED, EnvironmentLacks, Refused, VolbenchError
from volbench.target.image_names import images_ready

WORDS = {
    "demo": "what a run needs: Python environment, Docker engine and images, or the local target's programs",
    "test": "the same with development packages, MariaDB, a local server and a browser: what tests need",
    "python": "the Python environment only, with development packages",
    "engine": "a Docker engine that answers",
    "images": "the images, MySQL and MariaDB",
    "local": "server and tools for the local target",
    "posix-suites": "fsx and pjdfstest, compiled for the tests of emulated volumes",
    "cluster": "a Kubernetes cluster that answers: the current context's, else one on this machine",
    "lock": "resolve the lock files anew",
    "target": "print which target this machine can run: docker or local",
    "second-volume": "print the SPEC of the demo's second volume",
}


def main(arguments: list[str] | None = None) -> int:
    """Do one of WORDS; returns the exit code that volbench documents for its outcome."""
    epilog = "\n".join(f"{word:8} {text}" for word, text in WORDS.items())
    parser = argparse.ArgumentParser(
        prog="bootstrap", description=__doc__, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("word", choices=list(WORDS))
    word = parser.parse_args(arguments).word
    if word == "target":
        print("docker" if images_ready().present else "local")
        return 0
    places = find_places()
    if word == "second-volume":
        print(extras.second_demo_volume(places))
        return 0
    console = open_console()
    try:
        with places.held(on_wait=console.say):
            _do(word, places, console)
    except VolbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; what is done already is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _do(word: str, places: Places, console: Console) -> None:
    match word:
        case "demo":
            set_up(places, console, flavors=["mysql"], development=False)
        case "test":
            install(environment.VENV_NEEDS, places, console)
            extras.try_test_tools(places, console)
            set_up(places, console, flavors=["mysql", "mariadb"], development=True)
            extras.try_posix_suites(places, console)
        case "python":
            install(environment.VENV_NEEDS, places, console)
            environment.ensure_environment(places, console, development=True)
        case "engine":
            console.say(engine.ensure_engine(places, console).evidence)
        case "images":
            install(environment.VENV_NEEDS, places, console)
            engine.ensure_engine(places, console)
            console.say("images: " + ", ".join(images.ensure_images(places, console, ["mysql", "mariadb"])))
        case "cluster":
            cluster.ensure_cluster(places, console)
        case "posix-suites":
            extras.try_compiler(places, console)
            extras.try_posix_suites(places, console)
        case "local":
            console.say(local.ensure_local(places, console).evidence)
        case _:
            environment.write_locks(places, console)


def set_up(places: Places, console: Console, *, flavors: list[str], development: bool) -> None:
    """Environment and containers; where containers are impossible, say why and prepare the local target."""
    install(environment.VENV_NEEDS, places, console)
    extras.try_compiler(places, console)
    with ThreadPoolExecutor(max_workers=2) as pool:
        packages = pool.submit(environment.ensure_environment, places, console, development=development)
        daemon = pool.submit(extras.try_emulator, places, console)
        try:
            answer = engine.ensure_engine(places, console)
            names = images.ensure_images(places, console, flavors, python_ready=packages.result)
            packages.result()
            console.say(f"ready, by containers: {answer.evidence}, {', '.join(names)}")
        except (EnvironmentLacks, Refused) as lack:
            packages.result()
            console.say(f"no containers here:\n{lack}")
            console.say(f"ready, by the local target: {local.ensure_local(places, console).evidence}")
        daemon.result()


if __name__ == "__main__":
    sys.exit(main())
