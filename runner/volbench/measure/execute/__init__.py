"""The agent, which runs one cell, and the orchestrator, which runs a plan."""
