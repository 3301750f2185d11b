"""Samplers of the machine's counters, and of the processes on it."""
