"""Where statement time goes, what a transaction takes, and what it would take on another volume."""
