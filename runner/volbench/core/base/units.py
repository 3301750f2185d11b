"""Multiples of bytes."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30
