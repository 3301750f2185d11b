"""Slopes of latency over waiting times, against the server's count of waits, on modulated volumes."""
