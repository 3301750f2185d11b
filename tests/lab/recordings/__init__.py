"""Recordings of sar and iostat beside a real server, with a truth that the server's own counters tell."""
