"""Run directories, their journal, and their Parquet tables."""
