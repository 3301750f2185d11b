"""One virtual machine from boot to power off: QEMU, its disks, and the commands that are run inside."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from bootstrap.directories import Directories
from vm.image import Image
from volbench.errors import MissingPrerequisite

BOOT_LIMIT_S = 900.0
"""With emulated processors: 25 to 50 s were seen, and 200 s where QEMU got a quarter of a processor."""
KVM_LIMIT_S = 40.0
"""A kernel that runs at all with KVM greets within 10 s; some machines have a /dev/kvm on which guests hang."""
END_LIMIT_S = 60.0
KVM = Path("/dev/kvm")
TCG_OPTIONS = ("-accel", "tcg,thread=multi", "-cpu", "max")
TCG_KERNEL_ARGUMENT = " clearcpuid=cx16"
"""The kernel does without cmpxchg16b: one panicked right after it, with a pointer where its flags should have been.

Programs see it: NumPy refuses processors that lack it.
"""
KVM_OPTIONS = ("-accel", "kvm", "-cpu", "host")
DEVICE_BYTES = 1 << 30
MEMORY_MIB = 2048
LAB_INIT, SYSTEMD = "/sbin/lab-init", "/lib/systemd/systemd"


@dataclass(frozen=True, kw_only=True)
class Nvme:
    """One NVMe device.

    Args:
        throttle: options of QEMU's throttle group, such as {"iops-total": 300, "iops-total-max": 3000}.
    """

    size_bytes: int = DEVICE_BYTES
    throttle: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Done:
    """A command that ended. `code` is None when it did not within its limit."""

    code: int | None
    output: str


FOUR_DEVICES = (Nvme(), Nvme(), Nvme(), Nvme())


class Machine:
    """A context: the machine runs in it, and is thrown away after it.

    Args:
        image: what it boots from.
        nvme: its NVMe devices, `/dev/nvme0n1` the first.
        places: for the log and for what is known of this machine's KVM.
        memory_mib, processors: of the guest.
        first_process: its path in the guest.

    Raises MissingPrerequisite when the machine does not greet in time, with the end of its console.
    """

    def __init__(
        self,
        image: Image,
        locations: Directories,
        *,
        nvme: Sequence[Nvme] = FOUR_DEVICES,
        memory_mib: int = MEMORY_MIB,
        processors: int = 2,
        first_process: str = LAB_INIT,
    ) -> None:
        self._image, self._places, self._nvme = image, locations, nvme
        self._first_process = first_process
        self._size = (memory_mib, processors)
        self._directory = Path(tempfile.mkdtemp(prefix="volbench-vm-", dir="/var/tmp"))
        self.share = self._directory / "share"
        self.share.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None
        self._received = b""
        self._commands = 0
        self.kernel = ""
        self.accelerator = ""

    def __enter__(self) -> Machine:
        """Boot: with KVM where that works, else with emulated processors."""
        try:
            self._boot()
        except BaseException:
            self._throw_away()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Power off, end QEMU and remove the disks."""
        self._throw_away()

    def run(self, script: str, *, limit_s: float = 120.0) -> Done:
        """Run a bash script inside. Raises MissingPrerequisite when the machine itself no longer answers."""
        self._commands += 1
        output = f"output-{self._commands}"
        request = {"script": script, "output": output, "limit_s": limit_s}
        assert self._port is not None
        self._port.sendall(json.dumps(request).encode() + b"\n")
        answer = self._answer(limit_s + END_LIMIT_S)
        file = self.share / output
        return Done(code=answer["code"], output=file.read_text(errors="replace"))

    def checked(self, script: str, *, limit_s: float = 120.0) -> str:
        """Run a script that must succeed; return its output. Raises MissingPrerequisite with its last lines."""
        done = self.run(script, limit_s=limit_s)
        if done.code != 0:
            raise MissingPrerequisite(
                "a script failed in the virtual machine",
                where=script.strip().splitlines()[0][:120],
                evidence=f"exit code {done.code}: {done.output[-2000:]}",
            )
        return done.output

    def nvme_image(self, number: int) -> Path:
        """The file behind an NVMe device; what the machine has written is in it."""
        return self._directory / f"nvme{number}.img"

    def set_throttle(self, number: int, limits: Mapping[str, int]) -> None:
        """Set the throttle group of an NVMe device while the machine runs.

        Args:
            limits: of QMP's `block_set_io_throttle` (`iops`, `bps`, `iops_rd`, `iops_max`, ...); none: no limit.

        Raises MissingPrerequisite when QEMU refuses.
        """
        unlimited = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr"), 0)
        self._query("block_set_io_throttle", {"device": f"n{number}", **unlimited, **limits})

    def throttle(self, number: int) -> dict[str, int]:
        """The throttle group of an NVMe device as QEMU has it."""
        (state,) = [item for item in self._query("query-block") if item["device"] == f"n{number}"]
        return {name: value for name, value in state["inserted"].items() if name.startswith(("iops", "bps"))}

    def _query(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Ask QEMU's monitor."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(END_LIMIT_S)
            connection.connect(str(self._monitor))
            with connection.makefile("rw") as lines:
                lines.readline()  # QEMU greets
                for request in (
                    {"execute": "qmp_capabilities"},
                    {"execute": command, "arguments": arguments or {}},
                ):
                    lines.write(json.dumps(request) + "\n")
                    lines.flush()
                    answer = json.loads(lines.readline())
                    while "event" in answer:
                        answer = json.loads(lines.readline())
                    if "error" in answer:
                        raise MissingPrerequisite(
                            f"QEMU refuses {command}", where="QMP", evidence=str(answer["error"])
                        )
        return answer["return"]

    def _boot(self) -> None:
        known_bad = self._places.cache / "vm" / "kvm-does-not-work"
        if KVM.exists() and not known_bad.exists():
            self._start(KVM_OPTIONS)
            try:
                self._greet(KVM_LIMIT_S)
            except MissingPrerequisite as error:
                known_bad.write_text(f"{error}\n")
                self._end_process()
            else:
                self.accelerator = "kvm"
                return
        self._start(TCG_OPTIONS)
        self._greet(BOOT_LIMIT_S)
        self.accelerator = "tcg"

    def _start(self, accelerator: Sequence[str]) -> None:
        memory_mib, processors = self._size
        port = self._directory / "port"
        port.unlink(missing_ok=True)
        command = [
            "qemu-system-x86_64", *accelerator, "-m", str(memory_mib), "-smp", str(processors), "-display", "none",
            "-nic", "none", "-no-reboot", "-serial", f"file:{self._console}",
            "-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd), "-append",
            f"console=ttyS0 quiet root=/dev/vda rw init={self._first_process} panic=1 mitigations=off"
            + (TCG_KERNEL_ARGUMENT if accelerator is TCG_OPTIONS else ""),
            *_virtio_disk(self._image.root, "r", "snapshot=on,cache=unsafe"),
            *_virtio_disk(self._image.tree, "t", "readonly=on"),
            "-virtfs", f"local,path={self.share},mount_tag=share,security_model=none",
            "-device", "virtio-serial", "-chardev", f"socket,id=port,path={port},server=on,wait=off",
            "-device", "virtserialport,chardev=port,name=volbench-lab",
            "-qmp", f"unix:{self._monitor},server=on,wait=off",
        ]  # fmt: skip
        for number, device in enumerate(self._nvme):
            command += self._nvme_options(number, device)
        with (self._directory / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._port = self._connected(port)

    def _nvme_options(self, number: int, device: Nvme) -> list[str]:
        file = self.nvme_image(number)
        with file.open("wb") as image:
            image.truncate(device.size_bytes)
        throttle = "".join(f",throttling.{name}={value}" for name, value in device.throttle.items())
        drive = f"file={file},format=raw,if=none,id=n{number},cache=none,aio=native,discard=unmap{throttle}"
        return ["-drive", drive, "-device", f"nvme,serial=volume{number},drive=n{number}"]

    def _connected(self, port: Path) -> socket.socket:
        assert self._process is not None
        deadline = time.monotonic() + END_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(port))
            except OSError:  # not listening yet
                connection.close()
                time.sleep(0.05)
            else:
                return connection
        raise self._lacks("QEMU did not start", self._directory / "qemu.log")

    def _greet(self, limit_s: float) -> None:
        self._received = b""
        self.kernel = str(self._answer(limit_s)["ready"])

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._port is not None
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._received:
            self._port.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                received = self._port.recv(65536)
            except OSError:  # too late, or QEMU ended
                received = b""
            if not received:
                raise self._lacks(f"the virtual machine did not answer within {limit_s:g} s", self._console)
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def _monitor(self) -> Path:
        return self._directory / "monitor"

    @property
    def _console(self) -> Path:
        return self._directory / "console"

    def _lacks(self, description: str, log: Path) -> MissingPrerequisite:
        logs = [file for file in (self._directory / "qemu.log", log) if file.exists()]
        ends = [file.read_text(errors="replace")[-1500:] for file in dict.fromkeys(logs)]
        return MissingPrerequisite(description, where=str(self._image.kernel), evidence="\n".join(ends))

    def _throw_away(self) -> None:
        self._end_process()
        shutil.rmtree(self._directory)

    def _end_process(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None
        if self._process is not None:
            self._process.kill()  # nothing of the machine is kept
            self._process.wait()
            self._process = None


def _virtio_disk(image: Path, name: str, options: str) -> list[str]:
    drive = f"file={image},format=raw,if=none,id={name},{options}"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name}"]
