"""The sections of report.json, one module each."""
