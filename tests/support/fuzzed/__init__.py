"""Every reader of what others wrote, with real inputs of it: the table that the fuzzer and its regressions go by.

A reader takes the path of a file and reads all of it, as its command does. What it may raise is a VolbenchError and
nothing else; the parsers that samplers call at each tick may raise ValueError, which a tick records as a gap.
A new reader gets a row in `READERS` of the module of its subject.
"""

from __future__ import annotations

from fuzzed import evidence, inputs, kernel, queries, recordings, runs, sources

READERS = (
    *kernel.READERS,
    *queries.READERS,
    *recordings.READERS,
    *evidence.READERS,
    *runs.READERS,
    *inputs.READERS,
    *sources.READERS,
)
BY_NAME = {reader.name: reader for reader in READERS}
