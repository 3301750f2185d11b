"""The rank-sum test within blocks, which are nodes that each hold cells of both volumes; the runs that it needs."""
