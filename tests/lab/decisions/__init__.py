"""Decisions of `recommend` on loads and volumes that nobody measured, and what came of each."""
