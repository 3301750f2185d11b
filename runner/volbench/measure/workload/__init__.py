"""The steps: sysbench OLTP, dump, restore, cold reads, idle. One module a step, one protocol (interface.py)."""
