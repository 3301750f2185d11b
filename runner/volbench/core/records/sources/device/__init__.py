"""Sources of the volume's counters."""
