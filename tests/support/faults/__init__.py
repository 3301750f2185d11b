"""A run in which the n-th call of a kind fails, and what must hold afterwards."""
