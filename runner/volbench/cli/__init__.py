"""The commands: the only place that prints and exits."""
