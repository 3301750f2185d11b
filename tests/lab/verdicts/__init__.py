"""Real runs against known truths on a machine that other work uses: is the verdict right, and when does it come."""
