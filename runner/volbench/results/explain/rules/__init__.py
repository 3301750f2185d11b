"""Rules that name a cause of one step, and what they share."""
