"""Targets place a cell's agent: as child processes, or in containers. They know nothing of MySQL."""
