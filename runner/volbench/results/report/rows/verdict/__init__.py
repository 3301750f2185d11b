"""Rows and sentences of the verdict: comparisons, pairs of volumes, nodes, what the verdict rests on."""
