"""How sysbench connects to a server: its files of options, and what it needs for TLS."""
