"""What speaks against a finding: it is computed by other figures than those that named it, and compared.

`rebuild` has the arithmetic, on numbers and arrays. `distribution` and `objections` ask it about one finding of one
step, `claimed` with the waits that the finding claims, `cells` about equal cells of a step. No module here names a
cause.
"""
