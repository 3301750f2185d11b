"""Commands that plan, run, report and explain runs."""
