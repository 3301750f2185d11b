"""/proc/net/snmp and /proc/net/netstat: counters of the kernel's network protocols."""

from __future__ import annotations


def parse_netstat(text: str) -> dict[str, int]:
    """Return counters by `Protocol.Name`, such as `TcpExt.TCPTimeouts`. Raises ValueError for other text.

    Each protocol has a line of names and a line of values. Source: net/ipv4/proc.c.
    """
    counters: dict[str, int] = {}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) % 2:
        raise ValueError("a line of names without a line of values")
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        if names[0] != values[0]:
            raise ValueError(f"values of {values[0]} below names of {names[0]}")
        pairs = zip(names[1:], values[1:], strict=True)
        counters |= {f"{names[0].rstrip(':')}.{name}": int(value) for name, value in pairs}
    return counters
