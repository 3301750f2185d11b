"""Releases: a source archive and a wheel that anyone can build again byte for byte, their contents and sums."""
