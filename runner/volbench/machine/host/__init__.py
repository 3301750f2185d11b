"""The host: facts, tasks, block devices."""
