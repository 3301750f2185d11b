"""Evidence that others recorded: directories of files, and logs of clients."""
