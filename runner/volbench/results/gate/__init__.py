"""Decides policies: conditions over metrics, comparisons, findings and checks, each go, no-go or undecided."""
