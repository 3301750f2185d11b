"""The replica step: the second server, replication, heartbeats, the load."""
