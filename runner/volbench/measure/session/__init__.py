"""From a suite and volumes to a finished run: planned, checked, priced, run and resumed."""
