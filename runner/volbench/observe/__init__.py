"""A server in use, watched without a load of ours and without writing to it."""
