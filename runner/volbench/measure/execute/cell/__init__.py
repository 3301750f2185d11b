"""Inside a cell: the agent, the server that it starts, its samples and its result."""
