"""Validation before a move: is every byte there, is every object the same. The source is only ever read."""
