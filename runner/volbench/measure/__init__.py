"""The half that measures: from a suite and volumes to a run's directory."""
