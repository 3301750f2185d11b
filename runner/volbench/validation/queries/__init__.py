"""Queries of a slow log on two servers: rows, times and plans."""
