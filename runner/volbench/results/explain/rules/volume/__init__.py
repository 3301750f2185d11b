"""Rules that name the volume: its limits, what is slow without one, and what only its own counters show."""
