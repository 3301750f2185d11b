"""volbench: what a storage volume does to MySQL, and why."""

import logging

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # cli/logs.py sets the log up; nobody else prints it
