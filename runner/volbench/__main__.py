"""`python -m volbench`."""

import sys

if not sys.flags.safe_path and __package__ and sys.path[0] != __file__.rpartition("/volbench/")[0]:
    del sys.path[0]  # the working directory: it may be /tmp, and volbench is not in it

from volbench.cli.main import main

main()
