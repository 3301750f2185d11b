"""The server: its supervisor, configuration, connection, facts, and the templates of its data directory."""
