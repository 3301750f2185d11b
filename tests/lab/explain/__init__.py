"""The explaining rules against known causes: conditions made on purpose, and what was named for them."""
