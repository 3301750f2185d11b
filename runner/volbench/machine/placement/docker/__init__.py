"""The docker target and its images."""
