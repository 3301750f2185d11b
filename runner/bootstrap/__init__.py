"""Sets volbench up on a bare machine: packages, Python environment, Docker engine, images.

Standard library only. `python3 -m bootstrap --help` with runner/ on PYTHONPATH, or the Makefile, is the way in.
"""
