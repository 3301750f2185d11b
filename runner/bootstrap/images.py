"""The server and tools images: pulled or built, each only if the engine has no image of that content."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bootstrap import environment, offline
from bootstrap.command import run
from bootstrap.console import Console
from bootstrap.directories import Directories
from bootstrap.packages import install, program
from volbench.errors import MissingPrerequisite, Refused
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker import image_names

PULL_LIMIT_S = 600.0
BUILD_LIMIT_S = 900.0
TOOLS_IMAGES_MAX = 8
TOOLS_BASE = "debian:sid-slim"
SLIM = "docker/tools/slim.sh"
COMPILE = "docker/tools/compile.sh"
SLIM_NEEDS = (program("strip", "binutils", reason="takes symbols from the tools image's libraries"),)
SITE_IN_IMAGE = "/opt/volbench/site"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True, kw_only=True)
class ImageSource:
    """A server image: the official one to pull, and the Debian packages to build one from without a registry."""

    flavor: str
    official: str
    packages: str


SERVERS = {
    "mysql": ImageSource(flavor="mysql", official="mysql:8.4", packages="mysql-server-core"),
    # mariadb-install-db is the server's, and calls my_print_defaults, which is the client's.
    "mariadb": ImageSource(
        flavor="mariadb", official="mariadb:11.8", packages="mariadb-server-core mariadb-client-core"
    ),
}


def ensure_images(
    directories: Directories,
    console: Console,
    flavors: Sequence[str],
    *,
    python_ready: Callable[[], None] = lambda: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """Ensure that the engine has the tools image and one server image per flavor; return their names.

    `python_ready` waits for .venv, so that the builds start while .venv is still being made; `meanwhile` is called
    once the builds have started, which install nothing on this machine, or where nothing is to be built.
    Raises MissingPrerequisite with the log's end if an image can be neither pulled nor built.
    """
    missing = [SERVERS[flavor] for flavor in flavors if not _is_here(SERVERS[flavor], directories.root)]
    tools = image_names.tools_image()
    tools_missing = not capabilities.docker_image(tools).present
    if missing or tools_missing:
        base = _find_base(directories, console)
        with ThreadPoolExecutor(max_workers=2) as pool:  # apt in one build, unpacking in the other
            jobs: list[Future[None]] = []
            if tools_missing:  # the longest of them
                jobs.append(pool.submit(_build_tools, tools, base, directories, console, python_ready))
            jobs += [pool.submit(_ensure_server, server, base, directories, console) for server in missing]
            meanwhile()
            for job in jobs:
                job.result()
    else:
        meanwhile()
    servers = [image_names.pick_server_image(image_names.local_images(), flavor) for flavor in flavors]
    first = next((server for server in servers if server is not None), None)
    _tag(tools, image_names.TOOLS_ALIAS)  # the names in docker/compose.yaml
    if first is not None:
        _tag(first.name, image_names.SERVER_ALIAS)
    return (tools, *(server.name for server in servers if server is not None))


def _recipe(server: ImageSource, root: Path) -> str:
    """Return the label with the content hash of a built server image's inputs."""
    return (
        f"org.volbench.recipe={image_names.content_hash(root, ['docker/mysql', offline.ROOTFS], server.packages)}"
    )


def _is_here(server: ImageSource, root: Path) -> bool:
    """Return whether the engine has the official image, or a built one of the current recipe."""
    if capabilities.docker_image(server.official).present:
        return True
    answer = capabilities.ask(["docker", "images", "-q", "--filter", f"label={_recipe(server, root)}"])
    return answer.code == 0 and bool(answer.output.strip())


def _find_base(directories: Directories, console: Console) -> str:
    """Return the Debian base image: the registry's if one answers, else one built locally."""
    local_base = offline.base_name(directories.root)
    if capabilities.docker_image(TOOLS_BASE).present:
        return TOOLS_BASE
    if capabilities.docker_image(local_base).present:
        return local_base
    pulled = capabilities.ask(["docker", "pull", "-q", TOOLS_BASE], timeout_s=PULL_LIMIT_S)
    if pulled.code == 0:
        console.say(f"an image registry answers: pulled {pulled_digest(TOOLS_BASE)}")
        return TOOLS_BASE
    console.say(f"no image registry answers ({pulled.last_line}); building images from Debian packages")
    return offline.ensure_base(directories, console)


def pulled_digest(image: str) -> str:
    """Return `mysql@sha256:...` of an image that a registry gave: its tag may mean another one tomorrow."""
    answer = capabilities.ask(["docker", "image", "inspect", "--format", '{{join .RepoDigests " "}}', image])
    return answer.output.strip() if answer.code == 0 and "@sha256:" in answer.output else f"{image}, digest unknown"


def _ensure_server(server: ImageSource, base: str, directories: Directories, console: Console) -> None:
    """Pull the official server image if the base was pulled too, else build one and name it by its version."""
    if base == TOOLS_BASE:
        console.say(f"pulling {server.official}")
        log = directories.log(f"image-{server.flavor}")
        run(
            ["docker", "pull", "-q", server.official],
            log=log,
            label=f"pulling {server.official}",
            timeout_s=PULL_LIMIT_S,
        )
        console.say(f"pulled {pulled_digest(server.official)}")
        return
    built = f"volbench/{server.flavor}:new"
    console.say(f"building the {server.flavor} server image from Debian's {server.packages}")
    context = directories.root / "docker" / "mysql"
    arguments = {"BASE": base, "PACKAGES": server.packages}
    log = directories.log(f"image-{server.flavor}")
    build(
        context, context / "Dockerfile", arguments, built, f"--label={_recipe(server, directories.root)}", log=log
    )
    answer = capabilities.ask(
        ["docker", "run", "--rm", "--network=none", built, "/usr/sbin/mysqld", "--no-defaults", "--version"]
    )
    version = parse_server_version(answer.output)
    if answer.code != 0 or version is None:
        raise MissingPrerequisite(
            what=f"the new image {built} does not run", where="images", evidence=answer.last_line
        )
    name = f"volbench/{server.flavor}:{version}"
    _tag(built, name)
    capabilities.ask(["docker", "rmi", built])
    console.say(f"built {name}")


def parse_server_version(text: str) -> str | None:
    """Return `9.7` of `mysqld  Ver 9.7.4-2 for Linux ...`: the series for the image's tag."""
    match = re.search(r"Ver (\d+\.\d+)", text)
    return match[1] if match else None


def _build_tools(
    name: str, base: str, directories: Directories, console: Console, python_ready: Callable[[], None]
) -> None:
    """Build the tools image: Debian's part, the locked Python packages, then this code as the last layers."""
    log = directories.log("image-tools")
    dockerfile = directories.root / "docker" / "tools" / "Dockerfile"
    system = "volbench/tools-system:" + image_names.content_hash(
        directories.root, ["docker/tools/Dockerfile"], base
    )
    if not capabilities.docker_image(system).present:
        console.say("building the system part of the tools image (sysbench, clients, percona-toolkit, fio)")
        build(directories.root, dockerfile, {"BASE": base}, system, "--target=system", log=log)
    python_ready()
    site = _ensure_site(system, directories, console)
    build(directories.root, dockerfile, {"BASE": base, "SITE": site}, name, log=log)
    _forget_old_tools(name)
    console.say(f"built {name}")


def _forget_old_tools(current: str) -> None:
    """Remove all but the newest tools images; the engine refuses to remove images in use."""
    listed = capabilities.ask(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", image_names.TOOLS_REPOSITORY]
    )
    for old in [name for name in listed.output.split() if name != current][TOOLS_IMAGES_MAX:]:
        capabilities.ask(["docker", "rmi", old], timeout_s=60)


def _ensure_site(system: str, directories: Directories, console: Console) -> str:
    """Return the name of an image with only the locked Python packages, for the system image's Python.

    The packages are installed outside the build, where the package index is configured already.
    """
    answer = capabilities.ask(
        [
            "docker",
            "run",
            "--rm",
            "--network=none",
            system,
            "python3",
            "-c",
            "import sys; print('%d.%d' % sys.version_info[:2])",
        ],
        timeout_s=60,
    )
    if answer.code != 0:
        raise MissingPrerequisite(what=f"{system} does not run", where="tools image", evidence=answer.last_line)
    python = answer.last_line
    name = "volbench/tools-site:" + image_names.content_hash(
        directories.root, ["requirements.lock", SLIM, COMPILE], python, platform.machine()
    )
    if capabilities.docker_image(name).present:
        return name
    with suppress(MissingPrerequisite, Refused):  # without it the image is larger by a seventh
        install(SLIM_NEEDS, directories, console)
    console.say(f"installing the locked packages for the tools image's Python {python}")
    log = directories.log("image-tools")
    directories.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="site-", dir=directories.cache) as directory:
        site = Path(directory + SITE_IN_IMAGE)
        environment.install_for(python, site, directories, log)
        shutil.rmtree(site / "bin", ignore_errors=True)
        run(
            ["sh", str(directories.root / SLIM), str(site)],
            log=log,
            label="removing unused parts of the Python packages",
            timeout_s=60,
        )
        run(
            [
                "docker",
                "run",
                "--rm",
                "--network=none",
                f"--user={os.getuid()}:{os.getgid()}",
                "--volume",
                f"{site}:{SITE_IN_IMAGE}",
                "--volume",
                f"{directories.root / COMPILE}:/compile.sh:ro",
                system,
                "sh",
                "/compile.sh",
                SITE_IN_IMAGE,
            ],
            log=log,
            label="compiling the Python packages",
            timeout_s=BUILD_LIMIT_S,
        )
        with subprocess.Popen(
            ["tar", "-C", directory, "--owner=0", "--group=0", "-c", "opt"], stdout=subprocess.PIPE
        ) as tar:
            if tar.stdout is None:  # only for the type checker: stdout is a pipe
                raise AssertionError
            run(
                ["docker", "import", "-", name],
                log=log,
                label=f"docker import of {name}",
                timeout_s=300,
                stdin=tar.stdout.fileno(),
            )
    return name


def build(context: Path, dockerfile: Path, arguments: dict[str, str], name: str, *options: str, log: Path) -> None:
    """Run `docker build` on the host's network, with this machine's proxies if there are any."""
    passed = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    passed += [f"--build-arg={key}" for key in PROXY_VARIABLES if os.environ.get(key)]
    files = ["--tag", name, "--file", str(dockerfile), str(context)]
    run(
        ["docker", "build", "--network=host", *passed, *options, *files],
        log=log,
        label=f"building {name}",
        timeout_s=BUILD_LIMIT_S,
    )


def _tag(name: str, alias: str) -> None:
    """Give an image a second name."""
    answer = capabilities.ask(["docker", "tag", name, alias])
    if answer.code != 0:
        raise MissingPrerequisite(
            what=f"{name} cannot be tagged {alias}", where="images", evidence=answer.last_line
        )
