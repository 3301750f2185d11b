"""`volbench volume`."""
