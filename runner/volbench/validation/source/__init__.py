"""A server that is only read: its session, privileges, settings, and checks by other tools."""
