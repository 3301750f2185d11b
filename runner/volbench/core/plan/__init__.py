"""Plans: which cells run, in which order, and what they cost."""
