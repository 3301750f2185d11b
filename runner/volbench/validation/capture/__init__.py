"""Captures of a live server's statements, and masked slow logs."""
