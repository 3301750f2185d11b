"""The user's own data: loaded into a server once, for the dataset's template."""
