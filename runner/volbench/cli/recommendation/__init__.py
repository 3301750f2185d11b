"""`volbench recommend`."""
