"""The answer about burst credits as data, text and chart."""
