"""The machine and its servers: host, cluster, volumes, places for agents, MySQL."""
