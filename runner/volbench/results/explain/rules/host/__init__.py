"""Rules about what lies between the server and the volume, and about other work on the same host."""
