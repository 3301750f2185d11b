"""SQL text as MySQL and MariaDB divide it: one lexer for guard, masks, fingerprints and schedules."""
