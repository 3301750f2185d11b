"""Suites: YAML files that say what to run, checked strictly."""
