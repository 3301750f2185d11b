"""Dump and restore."""
