"""Records: the values that the halves of volbench share, and the files they are kept in.

Everything here is a frozen model without behaviour beyond validation. results/README.md documents each file.
"""
