"""Analysis: pure functions from recorded values to statistics, comparisons and causes; nothing here runs."""
