"""volbench: what a storage volume does to MySQL, and why."""

__version__ = "0.1.0"
