"""Replays a log: its statements again, on their connections, when they came."""
