"""A validation before a move: its plan, its result, and captures of the source."""
