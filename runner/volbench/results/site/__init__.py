"""The history of all runs as a static site: index, trends with change points, runs side by side, regressions."""
