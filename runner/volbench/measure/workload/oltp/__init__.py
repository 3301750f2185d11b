"""The OLTP step with sysbench, and the steps that run concurrently with it."""
