"""Volumes: what they are called, what is behind them, whose directories they hold, and how cold they are."""
