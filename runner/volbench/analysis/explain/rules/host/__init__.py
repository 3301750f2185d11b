"""Rules that name what lies between the server and the volume, or works beside them on the same host."""
