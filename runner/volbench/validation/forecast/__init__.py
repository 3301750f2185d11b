"""Forecasts for the candidate's volume: burst credits, capacity, growth, and the time of the move."""
