"""Facts about the storage behind a directory and about the machine."""
