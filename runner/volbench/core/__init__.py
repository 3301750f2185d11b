"""What both halves share: files' records, suites, plans, profiles, and the means of every layer."""
