"""Modules for every layer: safe files, programs that are logged without secrets."""
