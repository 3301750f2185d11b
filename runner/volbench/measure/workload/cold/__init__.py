"""Cold reads of files and tables."""
