"""Objects, accounts and grants of two servers in one form, and their differences."""
