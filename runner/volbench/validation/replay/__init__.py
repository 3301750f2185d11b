"""The replay of a slow log on the candidate, with its I/O."""
