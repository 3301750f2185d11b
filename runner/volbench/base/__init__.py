"""What every layer may use: no knowledge of suites, servers or volumes."""
