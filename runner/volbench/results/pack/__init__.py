"""Result packs: a run in one file, checked before others rely on it."""
