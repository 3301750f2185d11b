"""A claim's backup by the snapshot API of a cluster: how long it takes, and what its first reads cost."""
