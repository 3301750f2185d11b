"""`python -m volbench`."""

from volbench.cli.main import main

main()
