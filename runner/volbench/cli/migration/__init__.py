"""Commands for a move to another server: `validate` and `capture`."""
