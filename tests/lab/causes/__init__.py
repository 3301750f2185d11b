"""Causes made by mechanisms that are not volbench's own: the kernel, other programs, other processes."""
