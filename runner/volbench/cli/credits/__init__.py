"""`volbench credits`."""
