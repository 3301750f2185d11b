"""When a step counts: what is observed of it, and the reasons why its numbers are not averaged in."""
