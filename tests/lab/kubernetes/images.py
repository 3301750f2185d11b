"""The lab's own images, made without a registry, and the images of the Docker engine brought to the nodes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from daemons import LabFailed, run
from layout import Layout, NodePlaces

PAUSE = "volbench-lab/pause:1"
SHELL = "volbench-lab/shell:1"
PROVISIONER = "volbench-lab/local-path-provisioner:1"
IMPORT_TIMEOUT_S = 300.0


def make_images(layout: Layout) -> Path:
    """One archive of the lab's images: pause, a shell for provisioners' helpers, the local-path provisioner."""
    archive = layout.cache / "images.tar"
    newest = max((layout.bin / name).stat().st_mtime for name in ("pause", "local-path-provisioner"))
    if archive.exists() and archive.stat().st_mtime > newest:
        return archive
    busybox = shutil.which("busybox") or "/bin/busybox"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        programs = {PAUSE: "pause", PROVISIONER: "local-path-provisioner"}
        layers = {
            image: _layer(work, program, {layout.bin / program: f"usr/bin/{program}"})
            for image, program in programs.items()
        }
        libraries = {Path(field): field[1:] for field in run(["ldd", busybox]).split() if field.startswith("/")}
        applets = run([busybox, "--list"]).split()
        layers[SHELL] = _layer(work, "shell", {Path(busybox): "bin/busybox", **libraries}, links=applets)
        _write_archive(archive, layers, entrypoints={PAUSE: "/usr/bin/pause"})
    return archive


def import_lab_images(node: NodePlaces) -> None:
    """The lab's images into a node's containerd."""
    stamp = node.directory / "images.imported"
    archive = make_images(node.layout)
    if stamp.exists() and stamp.stat().st_mtime > archive.stat().st_mtime:
        return
    _import(node, archive)
    stamp.touch()


def import_docker_images(node: NodePlaces, images: list[str]) -> None:
    """Images of the machine's Docker engine into a node's containerd, unless it has them."""
    fields = run(["ctr", "-a", node.socket, "-n", "k8s.io", "images", "ls", "-q"]).split()
    missing = [image for image in images if f"docker.io/{image}" not in fields]
    if not missing:
        return
    save = subprocess.Popen(["docker", "save", *missing], stdout=subprocess.PIPE)
    try:
        load = subprocess.run(
            ["ctr", "-a", str(node.socket), "-n", "k8s.io", "images", "import", "-"],
            stdin=save.stdout,
            capture_output=True,
            text=True,
            check=False,
            timeout=IMPORT_TIMEOUT_S,
        )
    finally:
        save.kill()
        save.wait()
    if load.returncode != 0:
        raise LabFailed(f"images {', '.join(missing)} were not imported: {load.stderr[-500:]}")


def _import(node: NodePlaces, archive: Path) -> None:
    run(["ctr", "-a", node.socket, "-n", "k8s.io", "images", "import", archive], timeout_s=IMPORT_TIMEOUT_S)


def _layer(work: Path, name: str, files: dict[Path, str], *, links: list[str] | None = None) -> Path:
    """A layer with these files, and busybox's applets as links."""
    layer = work / f"{name}.tar"
    with tarfile.open(layer, "w") as tar:
        tmp = tarfile.TarInfo("tmp")
        tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp)
        for source, location in files.items():
            tar.add(source.resolve(), location)
        for applet in links or []:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return layer


def _write_archive(archive: Path, layers: dict[str, Path], *, entrypoints: dict[str, str]) -> None:
    """A `docker save` archive of one-layer images."""
    partial = archive.with_suffix(".partial")
    manifest = []
    with tarfile.open(partial, "w") as tar:
        for image, layer in layers.items():
            digest = hashlib.sha256(layer.read_bytes()).hexdigest()
            config: dict[str, object] = {"Env": ["PATH=/usr/bin:/bin"]}
            if image in entrypoints:
                config["Entrypoint"] = [entrypoints[image]]
            described = json.dumps(
                {
                    "architecture": "arm64" if os.uname().machine == "aarch64" else "amd64",
                    "os": "linux",
                    "config": config,
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                }
            ).encode()
            name = hashlib.sha256(described).hexdigest()
            _add(tar, f"{name}.json", described)
            tar.add(layer, f"{name}/layer.tar")
            manifest.append({"Config": f"{name}.json", "RepoTags": [image], "Layers": [f"{name}/layer.tar"]})
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    partial.replace(archive)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
