"""The bare machine's network: a namespace, a veth pair, address translation on this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

#: Networks of four addresses are taken from here, the first that this machine has no route into.
POOL = ipaddress.IPv4Network("10.213.0.0/16")
ENGINE_PID_FILE = Path("/run/docker.pid")  # an engine that started meanwhile needs forwarding too
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


@dataclass(kw_only=True)
class Network:
    """A context in which a network namespace exists whose packets go out by this machine's default route."""

    name: str
    rules: list[list[str]] = field(default_factory=list)
    forwarding: str = ""

    @property
    def namespace(self) -> Path:
        """The file that names the namespace."""
        return Path("/run/netns") / self.name

    def __enter__(self) -> Network:
        """Make the namespace; what was made is removed when a later step fails."""
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        network = _free_network()
        outside, inside = list(network.hosts())
        link = f"vb{self.name[-8:]}"
        _ip("netns", "add", self.name)
        _ip(
            "link",
            "add",
            link,
            "mtu",
            _mtu(),
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "mtu",
            _mtu(),
            "netns",
            self.name,
        )
        _ip("address", "add", f"{outside}/{network.prefixlen}", "dev", link)
        _ip("link", "set", link, "up")
        _ip("-n", self.name, "address", "add", f"{inside}/{network.prefixlen}", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", self.name, "link", "set", device, "up")
        _ip("-n", self.name, "route", "add", "default", "via", str(outside))
        self.forwarding = FORWARDING.read_text()
        FORWARDING.write_text("1")
        for rule in (
            ["nat", "POSTROUTING", "-s", str(network), "!", "-o", link, "-j", "MASQUERADE"],
            ["filter", "FORWARD", "-i", link, "-j", "ACCEPT"],
            [
                "filter",
                "FORWARD",
                "-o",
                link,
                "-m",
                "conntrack",
                "--ctstate",
                "RELATED,ESTABLISHED",
                "-j",
                "ACCEPT",
            ],
        ):
            subprocess.run(["iptables", "-w", "-t", rule[0], "-I", *rule[1:]], check=True)
            self.rules.append(rule)

    def _remove(self) -> None:
        while self.rules:
            rule = self.rules.pop()
            subprocess.run(["iptables", "-w", "-t", rule[0], "-D", *rule[1:]], check=False)
        if self.forwarding.strip() == "0" and not ENGINE_PID_FILE.exists():
            FORWARDING.write_text("0")
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.name)  # the veth pair goes with it


def _free_network() -> ipaddress.IPv4Network:
    """Raises StopIteration only where this machine has a route into each of 16,384 networks."""
    routes = [
        ipaddress.ip_network(route["dst"])
        for route in json.loads(_ip("-j", "-4", "route"))
        if route["dst"] != "default"
    ]
    return next(
        network for network in POOL.subnets(new_prefix=30) if not any(network.overlaps(route) for route in routes)
    )


def _mtu() -> str:
    """The smallest MTU of this machine's links that are up, so that no packet is too large further on."""
    links = json.loads(_ip("-j", "link"))
    return str(min((link["mtu"] for link in links if link.get("operstate") == "UP"), default=1500))
