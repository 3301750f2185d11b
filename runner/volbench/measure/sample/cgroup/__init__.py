"""Samplers of control groups: CPU, I/O, the server's own group."""
