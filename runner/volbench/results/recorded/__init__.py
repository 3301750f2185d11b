"""Reads what other tools recorded into the series that `explain` works on: less evidence, the same rules."""
