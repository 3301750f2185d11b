"""Burst credits: when a bucket runs dry, how long it takes to refill, and which volume would not run out.

Pure: limits come from a resolved volume profile, loads from numbers or a history. Nothing here prints.
"""
