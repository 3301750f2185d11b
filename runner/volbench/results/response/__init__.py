"""What a millisecond of the volume costs each transaction and query: slopes of latency over waiting times."""
