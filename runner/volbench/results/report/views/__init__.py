"""Plain data for tables and charts."""
