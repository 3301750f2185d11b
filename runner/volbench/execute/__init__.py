"""The agent, which runs one cell beside the server, and the orchestrator, which runs a plan."""
