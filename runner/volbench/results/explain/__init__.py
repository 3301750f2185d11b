"""Names the cause of what a step saw: physics and rules over aligned series, never trained on the faults."""
