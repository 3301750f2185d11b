"""Samplers of the volume's counters."""
